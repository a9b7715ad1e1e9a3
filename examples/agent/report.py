"""The page around what the model wrote: one file that needs nothing else, and in which nothing of the model's runs."""

from __future__ import annotations

import base64
import html
import posixpath
from collections.abc import Callable
from html.parser import HTMLParser

KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }}
img {{ max-width: 100%; }} table {{ border-collapse: collapse; }} td, th {{ border: 1px solid #ccc; padding: .2rem .6rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


class _Images(HTMLParser):
    """Finds where the body shows images. What is checked is what is replaced, however it is written."""

    def __init__(self, body: str) -> None:
        super().__init__()
        #: Begin and end of each tag in the body, its attributes, and the file it names.
        self.found: list[tuple[int, int, dict[str, str | None], str]] = []
        lines = body.split("\n")
        self._begins = [0]
        for line in lines:
            self._begins.append(self._begins[-1] + len(line) + 1)
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Of an attribute that is there twice the first one counts.
        named = dict(reversed(attrs))
        source = (named.get("src") or "").strip()
        if tag not in ("img", "image") or not source or source.lower().startswith("data:"):
            return
        line, column = self.getpos()
        begin = self._begins[line - 1] + column
        self.found.append((begin, begin + len(self.get_starttag_text() or ""), named, source))


def images(body: str) -> list[str]:
    """The files that the body shows."""
    return list(dict.fromkeys(source for *_, source in _Images(body).found))


def page(title: str, body: str, read: Callable[[str], bytes]) -> str:
    """The whole page, with its images in it."""
    inside = {name: _inside(name, read(name)) for name in images(body)}
    for begin, end, attributes, source in reversed(_Images(body).found):
        attributes["src"] = inside[source]
        words = [name if value is None else f'{name}="{html.escape(value)}"' for name, value in attributes.items()]
        body = f"{body[:begin]}<img {' '.join(words)}>{body[end:]}"
    return PAGE.format(title=html.escape(title), body=body)


def _inside(name: str, content: bytes) -> str:
    kind = KINDS.get(posixpath.splitext(name)[1].lower(), "application/octet-stream")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
