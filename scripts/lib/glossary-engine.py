"""A small real search engine: SQLite's BM25 over the whole glossary, answered as JSON.

usage: glossary-engine.py PORT      GET /search?q=WORDS&page=1  ->  {"results": [{"url", "title", "content"}]}
"""
import json
import re
import sqlite3
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from glossary import entries

PAGE = 10


PLAIN = str.maketrans({"{": None, "}": None, "<": "(", ">": ")"})


def build():
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.execute("create virtual table page using fts5(title, body, tokenize = 'porter unicode61')")
    db.executemany("insert into page values (?, ?)", ((title, text.translate(PLAIN)) for title, text in entries()))
    return db


DB = build()


def search(query, page):
    words = re.findall(r"\w+", query)
    if not words:
        return []
    match = " ".join(f'"{word}"' for word in words)
    rows = DB.execute(
        "select title, snippet(page, 1, '', '', '…', 40) from page where page match ? "
        "order by bm25(page, 8.0, 1.0) limit ? offset ?", (match, PAGE, PAGE * (page - 1)))
    return [{"url": "https://foldoc.org/" + urllib.parse.quote(title), "title": title,
             "content": " ".join(text.split())} for title, text in rows]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        args = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        page = int((args.get("page") or ["1"])[0])
        body = json.dumps({"results": search((args.get("q") or [""])[0], page)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
