# The Python of a code interpreter's context. One JSON request per line comes in on standard input; what code prints
# goes out as it is, and between it messages of our own: a record separator, a character that says whether more of the
# message follows, a piece of JSON, a line end. A piece is short enough for the kernel to write it in one go, whoever
# else writes. `begin` and `end` go out on both streams, so that a reader knows what belongs to a run.
#
# Written so that an interpreter that was started beforehand can run it: nothing of another module is replaced here
# by assignment, and no variable is named that interpreters read when they start.

import ast
import asyncio
import base64
import builtins
import importlib.machinery
import inspect
import io
import json
import linecache
import math
import os
import pprint
import re
import shlex
import signal
import subprocess
import sys
import time
import traceback
import types

PIECE = 4000
# The host takes messages of up to 8 MiB.
LARGEST = 7 << 20
WIDTH = 79
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Channel:
    """Where requests come from and messages go to: copies of the standard streams that no code's children have."""

    def __init__(self):
        self.requests = os.fdopen(os.dup(0), "rb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.out, self.err = os.dup(1), os.dup(2)
        self.pid = os.getpid()
        self.running = False
        self.shielded = 0
        self.interrupted = False
        signal.signal(signal.SIGINT, self.interrupt)

    def interrupt(self, *_):
        if not self.running:
            return
        if self.shielded:
            self.interrupted = True
        else:
            raise KeyboardInterrupt

    def send(self, message, both=False):
        """Sends a message whole: an interrupt comes before it or after it."""
        self.shielded += 1
        try:
            flush()
            text = json.dumps(message).encode()
            pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
            for number, piece in enumerate(pieces, 1):
                line = b"\x1e" + (b"." if number == len(pieces) else b"+") + piece + b"\n"
                for stream in (self.out, self.err) if both else (self.out,):
                    written = 0
                    while written < len(line):
                        written += os.write(stream, line[written:])
        finally:
            self.shielded -= 1
        if self.interrupted and not self.shielded and self.running:
            self.interrupted = False
            raise KeyboardInterrupt


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


# Results

METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
TEXTS = ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "javascript")


def plain(value, depth=0):
    """A value as JSON has it; a TypeError where it has none."""
    if depth > 64:
        raise TypeError("nested too deeply")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    # Numbers and arrays of numpy.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    raise TypeError(f"no JSON: {type(value).__name__}")


def text_of(value):
    text = repr(value)
    if len(text) > WIDTH and type(value) in (dict, list, tuple, set, frozenset):
        text = pprint.pformat(value, width=WIDTH, sort_dicts=False)
    return text


def class_of(module, name):
    """A class, if code has loaded it: nothing else can be an instance of it."""
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return found if isinstance(found, type) else ()


def bundle_of(value):
    """All forms in which a value can be shown, by their MIME types."""
    bundle = {}
    if isinstance(value, class_of("matplotlib.figure", "Figure")):
        bundle.update(figures.forms(value))
    for name, kind in METHODS.items():
        # Of its class, not of the class itself: the methods of `list` are none of a list's.
        method = None if isinstance(value, type) else getattr(value, name, None)
        if not callable(method):
            continue
        try:
            form = method()
        except Exception:
            continue
        if isinstance(form, tuple) and form:
            form = form[0]
        if form is not None:
            bundle[kind] = form
    many = None if isinstance(value, type) else getattr(value, "_repr_mimebundle_", None)
    if callable(many):
        try:
            forms = many(include=None, exclude=None)
            bundle.update(forms[0] if isinstance(forms, tuple) else forms or {})
        except Exception:
            pass
    if isinstance(value, (dict, list)):
        try:
            bundle.setdefault("application/json", plain(value))
        except (TypeError, RecursionError):
            pass
    if isinstance(value, class_of("pandas", "DataFrame")):
        try:
            bundle.setdefault("e2b/data", plain(value.to_dict(orient="list")))
        except Exception:
            pass
    bundle.setdefault("text/plain", text_of(value))
    return bundle


def show(bundle, main):
    result = {"type": "result", "is_main_result": main}
    extra = {}
    for kind, form in bundle.items():
        if isinstance(form, (bytes, bytearray)):
            form = base64.b64encode(form).decode()
        elif not isinstance(form, str):
            try:
                form = plain(form)
            except (TypeError, RecursionError):
                continue
        if len(form if isinstance(form, str) else json.dumps(form)) > LARGEST:
            print(f"a result was left out: its form {kind} is larger than {LARGEST} bytes", file=sys.stderr)
            continue
        if kind == "text/plain" and len(form) > 1 and form[0] == form[-1] and form[0] in "'\"":
            # The text itself, not how Python writes it.
            form = form[1:-1]
        if kind in FIELDS:
            # Whatever is no text travels as one.
            result[FIELDS[kind]] = form if FIELDS[kind] in TEXTS and isinstance(form, str) else json.dumps(form)
        else:
            extra[kind] = form
    if extra:
        result["extra"] = json.dumps(extra)
    if len(json.dumps(result)) > LARGEST:
        # Each fits, and all together do not: the image says most.
        for field in ("data", "json", "html", "svg", "extra"):
            result.pop(field, None)
    channel.send(result)


def display(*values, raw=False, include=None, exclude=None, **_):
    """Shows values, or bundles of forms where `raw` is set."""
    for value in values:
        bundle = dict(value) if raw else bundle_of(value)
        if include is not None:
            bundle = {kind: form for kind, form in bundle.items() if kind in include}
        if exclude is not None:
            bundle = {kind: form for kind, form in bundle.items() if kind not in exclude}
        show(bundle, False)


class Figures:
    """What matplotlib draws: shown when code asks for it, or at the end of a run."""

    def __init__(self):
        self.kinds = ("png",)
        self.shown = set()

    def choose(self, kinds):
        known = {"retina": "png", "png2x": "png", "png": "png", "svg": "svg", "jpeg": "jpeg", "jpg": "jpeg", "pdf": "pdf"}
        self.kinds = tuple(known[kind] for kind in kinds)

    def forms(self, figure):
        axes = len(figure.axes)
        size = tuple(int(length * figure.dpi) for length in figure.get_size_inches())
        forms = {"text/plain": f"<Figure size {size[0]}x{size[1]} with {axes} Axes>"}
        for kind in self.kinds:
            content = io.BytesIO()
            figure.savefig(content, format=kind, bbox_inches="tight")
            if kind == "svg":
                forms["image/svg+xml"] = content.getvalue().decode()
            else:
                forms["application/pdf" if kind == "pdf" else f"image/{kind}"] = content.getvalue()
        try:
            forms["e2b/chart"] = chart_of(figure)
        except Exception:
            pass
        self.shown.add(id(figure))
        return forms

    def flush(self, again=True):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        try:
            for number in pyplot.get_fignums():
                figure = pyplot.figure(number)
                if again or id(figure) not in self.shown:
                    display(figure)
        finally:
            pyplot.close("all")
            self.shown.clear()


# Cells


class Context:
    """What code finds: a module of its own, and what was defined in it before."""

    def __init__(self):
        self.module = types.ModuleType("__main__")
        self.names = vars(self.module)
        self.names.update(__builtins__=builtins, display=display, __rekindle__=self)
        sys.modules["__main__"] = self.module
        if "" not in sys.path:
            sys.path.insert(0, "")
        self.count = 0
        self.loop = None
        self.watching = False

    def run(self, code):
        name = f"<cell {self.count}>"
        code = dedented(code)
        # Not before: modules that are kept warm are loaded anew once there are other ways to find them.
        if not self.watching and re.search(r"matplotlib|pylab|seaborn|PIL|IPython", code):
            self.watching = True
            watch()
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        body, last = self.compiled(code, name)
        if body is not None:
            self.evaluate(body)
        if last is None:
            return
        value = self.evaluate(last)
        if value is not None:
            self.names["_"] = value
            show(bundle_of(value), True)

    def compiled(self, code, name):
        """The statements, and the expression at the end whose value is the result."""
        try:
            tree = ast.parse(code, name)
        except SyntaxError:
            translated = with_magics(code)
            if translated == code:
                raise
            linecache.cache[name] = (len(translated), None, translated.splitlines(True), name)
            tree = ast.parse(translated, name)
        last = None
        quiet = code.rstrip().endswith(";")
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not quiet:
            last = compile(ast.Expression(tree.body.pop().value), name, "eval", AWAIT)
        body = compile(tree, name, "exec", AWAIT) if tree.body else None
        return body, last

    def evaluate(self, code):
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            return self.loop.run_until_complete(value)
        return value

    # What `!` and `%` at the beginning of a line stand for.

    def expanded(self, line):
        def value(found):
            try:
                return str(eval(found.group(1), self.names))
            except Exception:
                return found.group(0)

        line = re.sub(r"\{([^{}]+)\}", value, line)
        return re.sub(r"\$([A-Za-z_]\w*)", lambda found: str(self.names.get(found.group(1), found.group(0))), line)

    def system(self, line):
        flush()
        self.names["_exit_code"] = subprocess.run(self.expanded(line), shell=True, executable=shell()).returncode

    def output(self, line):
        ran = subprocess.run(self.expanded(line), shell=True, executable=shell(), stdout=subprocess.PIPE)
        return ran.stdout.decode(errors="replace").splitlines()

    def magic(self, name, rest, body=None):
        rest = rest.strip()
        if body is not None and name in ("bash", "sh", "script"):
            words = shlex.split(rest) if name == "script" else [name]
            flush()
            subprocess.run(words, input=body.encode(), check=True)
        elif body is not None and name == "writefile":
            with open(os.path.expanduser(rest), "w") as file:
                file.write(body)
            print(f"Writing {rest}")
        elif name == "time":
            began, used = time.perf_counter(), time.process_time()
            body_code, last = self.compiled(body if body is not None else rest, f"<cell {self.count}>")
            if body_code is not None:
                self.evaluate(body_code)
            value = self.evaluate(last) if last is not None else None
            used, took = time.process_time() - used, time.perf_counter() - began
            print(f"CPU times: total: {used:.3g} s\nWall time: {took:.3g} s")
            return value
        elif name == "cd":
            os.chdir(os.path.expanduser(self.expanded(rest) or "~"))
            print(os.getcwd())
        elif name == "pwd":
            return os.getcwd()
        elif name in ("pip", "conda"):
            self.system(f"{shlex.quote(sys.executable)} -m pip {rest}" if name == "pip" else f"conda {rest}")
        elif name in ("env", "set_env"):
            if not rest:
                return dict(os.environ)
            key, _, value = rest.partition("=") if "=" in rest else rest.partition(" ")
            if not value:
                return os.environ.get(key)
            os.environ.update({key.strip(): value.strip()})
            print(f"env: {key.strip()}={value.strip()}")
        elif name == "config":
            found = re.fullmatch(r"InlineBackend\.figure_formats?\s*=\s*(.*)", rest)
            if found:
                kinds = ast.literal_eval(found.group(1))
                figures.choose([kinds] if isinstance(kinds, str) else kinds)
        elif name in ("matplotlib", "load_ext", "autoreload", "reload_ext"):
            pass
        else:
            raise NameError(f"there is no magic `%{name}` here")
        return None


def shell():
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def dedented(code):
    """Code without the indentation of its first line, and without empty lines before that."""
    lines = code.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    indent = re.match(r"[ \t]*", lines[0]).group() if lines else ""
    return "\n".join(line[len(indent) :] if line.startswith(indent) else line for line in lines)


def with_magics(code):
    """Lines that are no Python and begin with `!` or `%`, as calls."""
    cell = re.match(r"%%(\w+)(.*)\n?", code)
    if cell:
        return f"__rekindle__.magic({cell[1]!r}, {cell[2]!r}, {code[cell.end():]!r})"
    lines = []
    for line in code.split("\n"):
        found = re.match(r"(\s*)((?:[A-Za-z_][\w.]*\s*=\s*)?)([!%])(.+)$", line)
        if found is None:
            lines.append(line)
            continue
        indent, target, mark, rest = found.groups()
        if mark == "!":
            call = f"output({rest!r})" if target or rest.startswith("!") else f"system({rest!r})"
        else:
            name, _, words = rest.strip().partition(" ")
            call = f"magic({name!r}, {words!r})"
        lines.append(f"{indent}{target}__rekindle__.{call}")
    return "\n".join(lines)


def failure(error):
    """An error as a message. Frames of this file are none of the code's."""
    name = type(error).__name__
    try:
        value = str(error)
    except Exception:
        value = "<an error that cannot be shown>"
    own, seen, chain = set(), set(), [error]
    while chain:
        each = chain.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        for frame, line in traceback.walk_tb(each.__traceback__):
            if frame.f_globals is globals():
                own.add((frame.f_code.co_filename, line))
        chain += [each.__cause__, each.__context__]
    told = traceback.TracebackException.from_exception(error, compact=True)
    chain = [told]
    while chain:
        each = chain.pop()
        each.stack[:] = [frame for frame in each.stack if (frame.filename, frame.lineno) not in own]
        chain += [other for other in (each.__cause__, each.__context__) if other is not None]
    text = "".join(told.format())
    return {"type": "error", "name": name, "value": value[:LARGEST >> 3], "traceback": text[-(LARGEST >> 3) :]}


# Modules that show what they make


class Loader:
    """The loader of a module, and what is done once it is loaded."""

    def __init__(self, inner, then):
        self.inner, self.then = inner, then

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        self.inner.exec_module(module)
        try:
            self.then(module)
        except Exception:
            pass

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Watcher:
    """Finds modules as others do, and has something done to some of them."""

    def __init__(self, wanted):
        self.wanted = wanted

    def find_spec(self, name, path=None, target=None):
        then = self.wanted.get(name)
        if then is None:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = Loader(found.loader, then)
                return found
        return None


def watch_pyplot(module):
    module.switch_backend("agg")
    module.show = lambda *args, **keywords: figures.flush()


def watch_images(module):
    kind = module.Image
    save = kind.save

    def shown(image, *args, **keywords):
        display(image)

    def saved(image, fp, format=None, **params):
        save(image, fp, format, **params)
        if isinstance(fp, str):
            display(image)

    kind.show, kind.save = shown, saved


def watch_display(module):
    module.display = display


class Forms:
    """A thing that is shown in one form, such as `HTML("…")`."""

    kind = ""

    def __init__(self, data=None, url=None, filename=None, **_):
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = url if data is None else data

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = self.data
        if isinstance(data, bytes) and self.kind.startswith(("text/", "image/svg")):
            data = data.decode(errors="replace")
        return {self.kind: data}


class Picture(Forms):
    """An image in a file, or as bytes."""

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = self.data
        if isinstance(data, str):
            if data.startswith(("http:", "https:")):
                return {"text/html": f'<img src="{data}"/>'}
            with open(data, "rb") as file:
                data = file.read()
        return {"image/jpeg" if data[:2] == b"\xff\xd8" else "image/png": data}


class Notebook:
    """Stands in for `IPython.display` where IPython is not installed: code written for notebooks asks for it."""

    kinds = {
        "HTML": "text/html",
        "Markdown": "text/markdown",
        "Latex": "text/latex",
        "Math": "text/latex",
        "SVG": "image/svg+xml",
        "JSON": "application/json",
        "Javascript": "application/javascript",
        "Pretty": "text/plain",
    }

    def find_spec(self, name, path=None, target=None):
        if name in ("IPython", "IPython.display", "IPython.core.display"):
            return importlib.machinery.ModuleSpec(name, self, is_package=name == "IPython")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        names = {name: type(name, (Forms,), {"kind": kind}) for name, kind in self.kinds.items()}
        names.update(display=display, Image=Picture, clear_output=lambda *args, **keywords: None)
        names.update(get_ipython=lambda: None, version_info=(0, 0, 0), __version__="0")
        vars(module).update(names)


def watch():
    """Has what code loads from here on, and what it has loaded, show what it makes."""
    watched = {"matplotlib.pyplot": watch_pyplot, "PIL.Image": watch_images}
    watched["IPython.core.display_functions"] = watch_display
    sys.meta_path.insert(0, Watcher(watched))
    sys.meta_path.append(Notebook())
    for name, then in watched.items():
        if name in sys.modules:
            then(sys.modules[name])


def main():
    global channel, figures
    channel, figures = Channel(), Figures()
    # Programs run unbuffered here, where a `print` is two writes. A caller of a context gets a line as one piece.
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False) for number in (1, 2)
    )
    context = Context()
    channel.send({"type": "ready"})
    for line in channel.requests:
        request = json.loads(line)
        before = {name: os.environ.get(name) for name in request.get("env") or {}}
        os.environ.update(request.get("env") or {})
        context.count += 1
        message = None
        channel.interrupted = False
        try:
            try:
                channel.running = True
                channel.send({"type": "begin", "id": request["id"]}, both=True)
                channel.send({"type": "number_of_executions", "execution_count": context.count})
                context.run(request["code"])
                figures.flush(again=False)
            finally:
                channel.running = False
        except BaseException as error:
            channel.running = False
            message = failure(error)
        if os.getpid() != channel.pid:
            # A copy that the code has made of itself.
            flush()
            os._exit(0)
        if message is not None:
            figures.shown.clear()
            channel.send(message)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ.update({name: value})
        channel.send({"type": "end", "id": request["id"]}, both=True)


main()
