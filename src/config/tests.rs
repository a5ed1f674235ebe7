//! The configuration as a whole: what is accepted, what each mistake is told.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{Class, Endpoint};

const EXAMPLE: &str = include_str!("../../hedgerow.example.toml");

/// What the file must hold for an engine to be right.
const ENGINE: &str =
    "[[engine]]\nname = \"a\"\nadapter = \"searxng\"\nurl = \"http://127.0.0.1:1\"\n";

const PLAN: &str = "[plans.pro.fast]\nburst = 20\nper_second = 1\n";

fn no_env(_: &str) -> Option<String> {
    None
}

fn accepted(text: &str) -> Settings {
    parse(text, "hedgerow.toml", &no_env).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// Parses `text`; the problems, a line each, must be `expected`.
fn check(text: &str, expected: &[&str]) {
    let told = match parse(text, "f", &no_env) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    };
    assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn the_example_is_accepted_and_means_what_it_says() {
    let settings = accepted(EXAMPLE);
    assert_eq!(settings.engines.len(), 3);
    let alpha = &settings.engines[0];
    assert_eq!(alpha.quality_by_class[Class::News.index()], 0.6);
    assert_eq!(alpha.quality_by_class[Class::Product.index()], 1.0);
    assert_eq!(settings.engines[2].role, settings::EngineRole::LastChance);
    let plans: Vec<&str> = settings.plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(plans, ["free", "pro"]);
    assert_eq!(settings.plans[0].monthly_credits, Some(1250));
    assert_eq!(settings.plans[0].rates[Endpoint::Lite.index()].unwrap().per_second, 2.0);
    assert_eq!(settings.keys[0].plan, 1);
    assert_eq!(settings.deadline.total, Duration::from_millis(600));
    assert_eq!(settings.peers[0].provider, "b");
}

#[test]
fn the_example_gives_every_default_as_it_is() {
    let (mut example, bare) = (accepted(EXAMPLE), accepted(""));
    example.server.instance.clone_from(&bare.server.instance);
    assert_eq!(example.server, bare.server);
    assert_eq!(example.admin, bare.admin);
    assert_eq!(example.limits, bare.limits);
    assert_eq!(example.deadline, bare.deadline);
    assert_eq!(example.admission, bare.admission);
    assert_eq!(example.regional, bare.regional);
    assert_eq!(example.search, bare.search);
    assert_eq!(example.hedge, bare.hedge);
    assert_eq!(example.router, bare.router);
    assert_eq!(example.breaker, bare.breaker);
    assert_eq!(example.redirect, bare.redirect);
    assert_eq!(example.clicks, bare.clicks);
    assert_eq!(example.origin, bare.origin);
    assert_eq!(example.listen[0], bare.listen[0]);
    let default = &accepted(ENGINE).engines[0];
    assert_eq!(default.min_useful, example.engines[0].min_useful);
    assert_eq!(default.connections_per_core, example.engines[0].connections_per_core);
    assert_eq!(default.in_flight_max, None);
    assert!(default.cacheable && default.endpoints == [true, true]);
}

#[test]
fn every_key_of_the_table_is_read() {
    let files = "[listen.tls]\ncertificate = \"a\"\nkey = \"b\"\n";
    let text = format!(
        "[[listen]]\naddress = \"127.0.0.1:1\"\n{files}{ENGINE}{PLAN}[plans.pro.lite]\n\
        burst = 1\nper_second = 1\n[[key]]\n[[peer]]\n"
    );
    let schema = Schema::read();
    let mut problems = Problems::none("f");
    let found = walk::walk(&text, &schema, &mut problems);
    let mut reader = Reader::new(&schema, &found, problems);
    let env = |_: &str| None;
    let around = Surroundings { folder: PathBuf::new(), env: &env, machine: Machine::Any };
    build::build(&mut reader, &around);
    let unread: Vec<&str> = schema.names().filter(|name| !reader.asked.contains(*name)).collect();
    assert_eq!(unread, ["engine[].values.*"], "read as a whole by `texts_by_name`");
}

#[test]
fn the_built_in_text_is_accepted_and_stays_on_loopback() {
    let settings = load(None).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(settings.listen.iter().all(|listen| listen.address.ip().is_loopback()));
    assert!(settings.admin.address.ip().is_loopback());
    assert_eq!((settings.engines.len(), settings.keys.len()), (0, 1));
}

#[test]
fn settings_that_people_try_are_legal() {
    let hedge = |text: &str| accepted(&format!("[hedge]\n{text}")).hedge;
    let ms = Duration::from_millis;
    let all =
        hedge("delay_initial_ms = 60\ndelay_min_ms = 60\ndelay_max_ms = 60\nbudget_ratio = 1.0");
    assert_eq!((all.delay_initial, all.delay_min, all.delay_max), (ms(60), ms(60), ms(60)));
    let lower = hedge("delay_initial_ms = 150\ndelay_min_ms = 150");
    assert_eq!((lower.delay_initial, lower.delay_max), (ms(150), ms(450)));
    assert_eq!(hedge("delay_max_ms = 300").delay_initial, ms(300));
    assert_eq!(
        accepted("[admission]\nlimit_min = 500\nlimit_initial = 500").admission.limit_min,
        500
    );
    for quality in ["1000.0", "0.001", "1"] {
        accepted(&format!("{ENGINE}quality = {quality}"));
    }
    let news = accepted("[search.classes.news]\nfresh_s = 1").search.classes[Class::News.index()];
    assert_eq!((news.fresh, news.usable), (ms(1000), ms(1000)));
    let long = accepted("[search.classes.product]\nfresh_s = 100000").search.classes;
    assert_eq!(long[Class::Product.index()].usable, Duration::from_secs(100_000));
}

#[test]
fn a_plan_may_have_a_dotted_or_a_plain_name() {
    let rate = "burst = 1\nper_second = 1";
    let text = format!("[plans.\"a.b\".fast]\n{rate}\n[plans.a.lite]\n{rate}\n");
    let plans = accepted(&text).plans;
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["a", "a.b"]);
}

#[test]
fn keys_that_contradict_each_other_are_told() {
    check(
        "[hedge]\ndelay_min_ms = 500",
        &["f:2: hedge.delay_min_ms: 500 is above delay_max_ms (450)"],
    );
    check(
        "[admission]\nlimit_min = 65",
        &["f:2: admission.limit_min: 65 is above limit_initial (64)"],
    );
    check(
        "[admission]\nlimit_max = 63",
        &["f: admission.limit_initial: 64 is above limit_max (63)"],
    );
    check(
        "[search.classes.product]\nfresh_s = 20\nusable_s = 10",
        &["f:3: search.classes.product.usable_s: less than fresh_s (20); want at least that"],
    );
    check(
        "[search.classes.news]\nusable_s = 301",
        &["f:2: search.classes.news.usable_s: above fresh_s, but news is never served stale; \
             leave it out"],
    );
    check(
        "[deadline]\ntotal_ms = 27",
        &["f:2: deadline.total_ms: not above write_margin_ms + merge_reserve_ms: no time is left \
             for engines"],
    );
    check(
        "[admin]\naddress = \"0.0.0.0:1\"",
        &["f:2: admin.address: 0.0.0.0:1 is not loopback; set admin.token_file, or use 127.0.0.1"],
    );
    check(
        "[clicks]\nsink = \"kafka\"",
        &["f: clicks.brokers: empty, but the sink is \"kafka\"; want host:port,host:port"],
    );
    check(
        "[plans.a]\nlane = \"batch\"",
        &["f:1: plans.a: no endpoint; want [plans.a.lite] or [plans.a.fast]"],
    );
}

#[test]
fn engines_and_keys_are_checked_one_by_one() {
    check(
        &format!("{ENGINE}{ENGINE}"),
        &["f:6: engine[1].name: \"a\" is the name of an earlier engine"],
    );
    check(
        "[[engine]]\nname = \"a\"",
        &[
            "f:1: engine[0].adapter: missing; want a string",
            "f:1: engine[0].url: missing; want http:// or https:// with a host, without user, \
             query or fragment",
        ],
    );
    let digest = "00".repeat(32);
    let key =
        |name: &str| format!("[[key]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nplan = \"pro\"\n");
    check(&format!("{PLAN}{}", key("k")), &[]);
    check(
        &format!("{PLAN}{}{}", key("k"), key("k")),
        &[
            "f:9: key[1].name: \"k\" is the name of an earlier key",
            "f:10: key[1].sha256: it is the same key as \"k\"",
        ],
    );
    check(&key("k"), &["f:4: key[0].plan: there is no [plans.pro]; known plans: none"]);
    let short = key("k").replace(&digest, "secret");
    check(
        &format!("{PLAN}{short}"),
        &["f:6: key[0].sha256: 6 characters that are no SHA-256; want 64 hexadecimal digits \
         (as by `printf %s KEY | sha256sum`)"],
    );
}

#[test]
fn an_unknown_adapter_lists_the_known_ones() {
    let problems =
        parse(&ENGINE.replace("searxng", "serxng"), "f", &no_env).unwrap_err().to_string();
    assert!(problems.contains("f:3: engine[0].adapter: \"serxng\" is no built-in manifest"));
    assert!(problems.contains("did you mean \"searxng\"?"), "{problems}");
    let missing =
        parse(&ENGINE.replace("searxng", "my/a.toml"), "f", &no_env).unwrap_err().to_string();
    assert!(missing.contains("my/a.toml: No such file"), "{missing}");
}

#[test]
fn an_engines_key_comes_from_the_environment_and_is_never_shown() {
    let text = format!("{ENGINE}api_key_env = \"ALPHA\"");
    check(&text, &["f:5: engine[0].api_key_env: the environment has no variable ALPHA; set it"]);
    let env = |name: &str| (name == "ALPHA").then(|| "hush".to_owned());
    let settings = parse(&text, "f", &env).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(settings.engines[0].api_key.as_ref().map(settings::Secret::reveal), Some("hush"));
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn a_key_that_cannot_be_sent_is_told_and_not_shown() {
    let text = format!("{ENGINE}api_key_env = \"ALPHA\"");
    let told = |text: &str, value: &[u8]| {
        let env = |name: &str| (name == "ALPHA").then(|| OsString::from_vec(value.to_vec()));
        let told = read(text, "f", &env, Machine::Any).unwrap_err().to_string();
        assert!(!told.contains("hush") && !told.contains("Evil"), "{told}");
        told
    };
    let start = "f:5: engine[0].api_key_env: the variable ALPHA ";
    for (value, expected) in [
        (&b""[..], "is empty"),
        (b"hush\n", "ends with a line break"),
        (b"hush\r\nX-Evil: 1", "holds a control character"),
        (b"hush\xff", "is not valid UTF-8"),
    ] {
        let told = told(&text, value);
        assert!(told.starts_with(&format!("{start}{expected}")), "{told}");
    }
    let key_itself = text.replace("ALPHA", "sk-hush");
    assert!(
        told(&key_itself, b"").contains("api_key_env: it is no name of an environment variable")
    );
}

#[test]
fn an_engine_without_the_key_that_its_adapter_needs_is_told() {
    let brave = ENGINE.replace("searxng", "brave");
    let told = |line: usize| {
        format!(
            "f:{line}: engine[0].api_key_env: missing, and the adapter \"brave\" of engine \"a\" \
             needs it: name the environment variable that holds its key"
        )
    };
    check(&brave, &[&told(1)]);
    check(&format!("{brave}api_key_env = \"\""), &[&told(5)]);
    check(
        &format!("{brave}api_key_env = \"NONE\""),
        &["f:5: engine[0].api_key_env: the environment has no variable NONE; set it"],
    );
}

#[test]
fn listeners_on_one_address_are_told_with_both_keys() {
    let listen = |address: &str| format!("[[listen]]\naddress = \"{address}\"\n");
    check(
        &format!("{}{}", listen("0.0.0.0:80"), listen("0.0.0.0:80")),
        &["f:4: listen[1].address: 0.0.0.0:80 stands there twice: it is listen[0].address too; \
          give them different ports, or make them one"],
    );
    check(
        &format!("[admin]\naddress = \"127.0.0.1:80\"\n{}", listen("0.0.0.0:80")),
        &["f:2: admin.address: 127.0.0.1:80 is taken by listen[0].address (0.0.0.0:80); give one \
          of them another port"],
    );
    check(
        &listen("127.0.0.1:9090"),
        &["f: admin.address: 127.0.0.1:9090 is taken by listen[0].address (127.0.0.1:9090); give \
          one of them another port"],
    );
    check(
        "[admin]\naddress = \"127.0.0.1:8080\"",
        &["f:2: admin.address: 127.0.0.1:8080 is taken by listen[0].address (127.0.0.1:8080); \
             give one of them another port"],
    );
    check(&format!("{}{}", listen("127.0.0.1:0"), listen("127.0.0.1:0")), &[]);
}

#[test]
fn more_cores_than_the_machine_has_are_told_where_the_machine_counts() {
    for text in ["[server]\ncores = \"999\"", "[server]\ncores = \"0-1023\""] {
        let told = load_text(text, "f").unwrap_err().to_string();
        assert!(told.starts_with("f:2: server.cores: "), "{told}");
        assert!(told.contains("this process may run on 0"), "{told}");
    }
    assert_eq!(accepted("[server]\ncores = \"999\"").server.cpus.len(), 999);
}

/// The problems of `text`, which must be told on `lines` lines of `columns` characters at most.
fn check_told(text: &str, lines: usize, columns: usize) -> String {
    let told = parse(text, "f", &no_env).unwrap_err().to_string();
    assert_eq!(told.lines().count(), lines, "{told}");
    for line in told.lines() {
        assert!(line.chars().count() <= columns, "{} characters", line.chars().count());
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    told
}

#[test]
fn what_is_told_neither_grows_with_the_file_nor_obeys_it() {
    let long = "x".repeat(1 << 20);
    for text in [
        format!("[hedge\n{long}"),
        format!("[server]\n{long} = 1"),
        format!("[server]\npop = \"{long}\""),
        format!("[server]\ncores = \"{long}\""),
        format!("[hedge]\npercentile = 1{}", long.replace('x', "0")),
        format!("[admin]\naddress = \"{long}\""),
        format!("[redirect]\norigin = \"{long}://\""),
        format!("[redirect]\ntrusted_proxies = [\"{long}\"]"),
        format!("[regional]\nurl = \"redis://{long}\""),
        format!("[plans.\"{long} \"]"),
        format!("[plans.a.{long}]"),
    ] {
        let lines = parse(&text, "f", &no_env).unwrap_err().to_string().lines().count();
        check_told(&text, lines.min(3), 800);
    }
    check_told(&format!("{ENGINE}adapter = \"{long}\""), 1, 800);
    check_told(&ENGINE.replace("searxng", &format!("/{long}")), 1, 800);
    let escape = "[hedge]\n\"\\u001b]0;owned\\u0007\" = 1\n[server]\npop = \"\\u009b31m\"";
    let told = check_told(escape, 2, 400);
    assert!(told.contains("hedge.\\u{1b}]0;owned\\u{7}") && told.contains("\\u{9b}31m"), "{told}");
    check_told("[hedge]\nmode = \u{1b}[31m", 2, 400);
}

#[test]
fn fifty_problems_are_shown_and_the_others_counted() {
    let lines = |count: usize| (0..count).map(|n| format!("k{n} = 1\n")).collect::<String>();
    check_told(&lines(50), 50, 800);
    let told = check_told(&lines(3_000), 51, 800);
    assert!(told.ends_with("\n… and 2950 more"), "{told}");
    assert_eq!(parse(&lines(3_000), "f", &no_env).unwrap_err().count(), 3_000);
}

#[test]
fn many_of_a_kind_are_told_once_and_none_is_held_against_each_other() {
    let many =
        |text: &str| -> String { (0..20_000).map(|n| text.replace("#", &n.to_string())).collect() };
    let told = |text: &str| parse(text, "f", &no_env).unwrap_err().to_string();
    let engine = ENGINE.replace("\"a\"", "\"a#\"");
    assert_eq!(told(&many(&engine)), "f:1025: engine[256]: more than 256 engines");
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\n";
    assert_eq!(told(&many(listen)), "f:129: listen[64]: more than 64 listeners");
    let key = "[[key]]\nname = \"k#\"\nplan = \"pro\"\nsha256 = \"";
    let keys: String =
        (0..20_000).map(|n| format!("{}{n:064x}\"\n", key.replace('#', &n.to_string()))).collect();
    assert_eq!(accepted(&format!("{PLAN}{keys}")).keys.len(), 20_000);
}

#[test]
fn a_line_that_may_hold_a_password_is_not_repeated() {
    let told = check_told("[regional]\nurl = \"redis://user:hush@host:1", 1, 400);
    assert!(!told.contains("hush"), "{told}");
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    check(
        "[breaker]\nvalid_ratio_min = 1.5\n[hedge]\npercentile = 900\nfoo = 1\n\
         [server]\ncores = \"x\"\n",
        &[
            "f:2: breaker.valid_ratio_min: 1.5 is out of bounds; want a number from 0 to 1",
            "f:4: hedge.percentile: 900 is out of bounds; want a number from 1 to 99.9",
            "f:5: hedge.foo: unknown key; known here: enabled, mode, budget_target_ratio, \
             percentile, delay_initial_ms, delay_min_ms, delay_max_ms, window_s, refresh_s, \
             samples_min, budget_ratio, last_chance_budget_ratio",
            "f:7: server.cores: \"x\" is no list of processors; want \"all\", a count (\"2\") or a \
             list (\"0-3,6\")",
        ],
    );
}

#[test]
fn what_is_not_served_yet_is_accepted_and_named() {
    let text = format!(
        "{}[regional]\nurl = \"redis://127.0.0.1:7000\"\n",
        ENGINE.replace("http:", "https:")
    );
    let told = accepted(&text).unsupported();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("regional.url") && told[1].starts_with("engine[0].url"));
    assert_eq!(accepted("").unsupported(), Vec::<String>::new());
}

#[test]
fn every_section_without_effect_is_named() {
    let peer = "[[peer]]\nregion = \"US\"\nprovider = \"b\"\nurl = \"https://b.example\"";
    for (section, text) in [
        ("regional", "[regional]\nlease_ms = 60"),
        ("redirect", "[redirect]"),
        ("clicks", "[clicks]\nsink = \"off\""),
        ("origin", "[origin]"),
        ("peer", peer),
    ] {
        let told = accepted(text).unsupported();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(section) && told[0].ends_with("leave the section out"));
    }
}

#[test]
fn the_documentation_is_the_table() {
    let written = include_str!("../../docs/config.md");
    assert!(written == keys_document(), "write docs/config.md by `hedgerow check --print-keys`");
}

/// Keys at random, of right and wrong kinds.
const LINES: &str = "([a-z_]{1,12} = (1|-1|\"é\"|\\[1\\]|1e400|\\{\\}|true)\n){0,4}";

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        tables in prop::collection::vec(
            ("\\[{1,2}(hedge|engine|plans|key|x)(\\.[a-z*]{1,6})?\\]{1,2}", LINES), 0..5,
        ),
    ) {
        let text: Vec<String> = tables.iter().map(|(t, lines)| format!("{t}\n{lines}")).collect();
        let _ = parse(&text.concat(), "f", &no_env);
    }
}
