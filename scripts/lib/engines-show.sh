# Sourced by scripts/real-engines: shows hedgerow in front of the running engines. Needs $here, $dir and $HEDGEROW or target/release.

hedgerow_config() {
    . "$dir/urls"
    cat <<TOML
[server]
cores = "1"
[admin]
address = "127.0.0.1:$1"
[[listen]]
address = "127.0.0.1:$2"
serves = ["search"]
[[engine]]
name = "searxng"
adapter = "searxng"
url = "$searxng"
quality = 10.0
[[engine]]
name = "wiki"
adapter = "mediawiki"
url = "$wiki"
values = { api_path = "/api.php" }
[plans.pro.fast]
burst = 100
per_second = 100.0
[[key]]
name = "demo"
sha256 = "$(printf demo | sha256sum | cut -d' ' -f1)"
plan = "pro"
TOML
}

# ask QUESTION: the answer's cache status, time, legs and first three results.
ask() {
    curl -s -G "http://127.0.0.1:$port/search/fast" --data-urlencode "q=$1" -H 'Authorization: Bearer demo' | python3 -c '
import json, sys
a = json.load(sys.stdin)
legs = ", ".join("%s %s %s %d ms" % (e["name"], e["role"], e["status"], e["latency_ms"]) for e in a.get("engines", []))
print("%s  %s  %s ms  [%s]" % (sys.argv[1], a["cache"]["status"] if "cache" in a else a["code"], a.get("latency_ms", "-"), legs))
for r in a.get("results", [])[:3]:
    print("    %d. %s  <%s>\n       %s" % (r["position"], r["title"], r["url"], r["snippet"][:90]))' "$1"
}

show() {
    local admin port
    admin=$(free_port) port=$(free_port)
    hedgerow_config "$admin" "$port" >"$dir/hedgerow.toml"
    run hedgerow "${HEDGEROW:-$here/../target/release/hedgerow}" serve --config "$dir/hedgerow.toml"
    wait_for hedgerow "http://127.0.0.1:$admin/readyz"
    echo "== a miss, asked of a real engine"
    ask "operating system"
    echo "== the same question again"
    ask "operating system"
    echo "== SearXNG is killed"
    kill -- "-$(cat "$dir/searxng.pid")" && rm "$dir/searxng.pid"
    ask "network"
    ask "protocol"
    kill -- "-$(cat "$dir/hedgerow.pid")" && rm "$dir/hedgerow.pid"
}
