"""The Free On-line Dictionary of Computing, from Debian's dict-foldoc: real titles and texts for real engines.

entries() gives (title, text). As a program it writes them as a MediaWiki export: glossary.py COUNT > pages.xml
"""
import gzip
import sys
from xml.sax.saxutils import escape

SOURCE = "/usr/share/dictd/foldoc.dict.dz"
FORBIDDEN = set("#<>[]|{}_\n")  # in a wiki's titles


def entries():
    title, lines = None, []
    with gzip.open(SOURCE, "rt", encoding="utf-8", errors="replace") as source:
        for line in source:
            if line.strip() and line[0] not in " \t{(":
                if title and lines:
                    yield title, "\n".join(lines).strip()
                title, lines = line.strip(), []
            elif title:
                lines.append(line.strip())
    if title and lines:
        yield title, "\n".join(lines).strip()


def wikitext(text):
    """{links} as wiki links, <fields> in parentheses: a wiki would take them for tags."""
    return text.translate(str.maketrans({"{": "[[", "}": "]]", "<": "(", ">": ")"}))


def wiki_pages(count):
    """Every k-th entry that a wiki can hold, so that `count` of them span the alphabet."""
    usable = {}
    for title, text in entries():
        name = title[:1].upper() + title[1:]
        if not FORBIDDEN & set(name) and not name.startswith((":", "/", ".")) and len(text) > 80:
            usable.setdefault(name, wikitext(text))
    step = max(1, len(usable) // count)
    return list(usable.items())[::step][:count]


def main():
    print('<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">')
    for number, (title, text) in enumerate(wiki_pages(int(sys.argv[1])), 1):
        print(f"<page><title>{escape(title)}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
              "<timestamp>2026-01-01T00:00:00Z</timestamp><contributor><username>Glossary</username><id>1</id></contributor>"
              f'<model>wikitext</model><format>text/x-wiki</format><text xml:space="preserve">{escape(text)}</text></revision></page>')
    print("</mediawiki>")


if __name__ == "__main__":
    main()
