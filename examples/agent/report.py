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
    """Where the body shows images."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = dict(attrs).get("src") if tag == "img" else None
        if source and not source.startswith("data:"):
            self.names.append(source)


def images(body: str) -> list[str]:
    """The files that the body shows."""
    found = _Images()
    found.feed(body)
    return list(dict.fromkeys(found.names))


def page(title: str, body: str, read: Callable[[str], bytes]) -> str:
    """The whole page, with its images in it."""
    for name in images(body):
        kind = KINDS.get(posixpath.splitext(name)[1].lower(), "application/octet-stream")
        inside = f"data:{kind};base64,{base64.b64encode(read(name)).decode()}"
        for quote in ('"', "'"):
            body = body.replace(f"src={quote}{name}{quote}", f"src={quote}{inside}{quote}")
    return PAGE.format(title=html.escape(title), body=body)
