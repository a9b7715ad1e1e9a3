"""Modules that are loaded but not imported yet, as far as the program can tell.

While modules are loaded the shelf records what each of them needs. Then everything a fresh
interpreter would not have is taken out of `sys.modules`. When the program imports one of them, it
comes back together with what it needs, provided that the import would still find the same file. What
it wants to be called at the end of the interpreter is called only if it has come back.
"""

import _frozen_importlib as bootstrap
import _warnings
import builtins
import os
import sys

# Modules that hold randomness or a moment of the past, and how they are made fresh. Called when the
# module comes off the shelf, so before the program can use it.
_REFRESH = {}


def _refreshes(name):
    def register(function):
        _REFRESH[name] = function
        return function

    return register


@_refreshes("random")
def _random(module):
    module.seed()


@_refreshes("numpy.random")
def _numpy_random(module):
    module.seed()


@_refreshes("tempfile")
def _tempfile(module):
    module._name_sequence = None


@_refreshes("multiprocessing.process")
def _multiprocessing(module):
    # Holds a random key.
    module._current_process = type(module._current_process)()


@_refreshes("logging")
def _logging(module):
    module._startTime = type(module._startTime)(0) + _logging_now(module)


def _logging_now(module):
    # Nanoseconds since Python 3.13, seconds before.
    return module.time.time_ns() if isinstance(module._startTime, int) else module.time.time()


def _is_loading(name):
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _forget_decisions():
    """Makes the interpreter look at the warning filters again."""
    forget = getattr(_warnings, "_filters_mutated", None) or getattr(_warnings, "_filters_mutated_lock_held", None)
    if forget is not None:
        forget()


class Shelf:
    """What is loaded and hidden."""

    def __init__(self, baseline):
        self._baseline = frozenset(baseline)
        self._needs = {}
        self._hidden = {}
        self._loaded = {}
        self._files = {}
        self._attributes = {}
        self._under_way = []
        self._filters, self._noted, self._added = [], [], {}
        self._ends, self._at_exit = [], {}

    # Loading

    def __enter__(self):
        """Begins to record which module needs which others."""
        # Not at the top: a fresh interpreter does not have it.
        import atexit

        self._atexit = atexit
        self._import = builtins.__import__
        builtins.__import__ = self._recording_import
        self._filters = list(_warnings.filters)
        self._register, self._unregister = atexit.register, atexit.unregister
        atexit.register, atexit.unregister = self._note_at_exit, self._forget_at_exit
        return self

    def _recording_import(self, name, globals=None, locals=None, fromlist=(), level=0):
        globals = globals or {}
        target = name
        if level:
            package = globals.get("__package__") or globals.get("__name__", "")
            target = bootstrap._resolve_name(name, package, level)
        # Statements of a module that is being loaded are its own needs. Other imports are made for the
        # module whose loading led there: by a function it calls, or by an extension module.
        importer = globals.get("__name__")
        if not _is_loading(importer):
            importer = self._under_way[-1] if self._under_way else None
        before = len(sys.modules)
        self._under_way.append(target)
        try:
            return self._import(name, globals, locals, fromlist, level)
        finally:
            self._under_way.pop()
            needs = self._needs.setdefault(importer, set())
            needs.add(target)
            inner = (f"{target}.{item}" for item in fromlist or () if isinstance(item, str))
            needs.update(item for item in inner if item in sys.modules)
            # Also what came along in ways that are not an import statement.
            new = list(sys.modules)[before:]
            if new:
                self._needs.setdefault(target, set()).update(new)
                self._note_filters(target)

    def _note_filters(self, name):
        """Records the warning filters a module has set."""
        known, now = self._noted, list(_warnings.filters)
        added = [entry for entry in now if entry not in known and entry not in self._filters]
        if added:
            first = now.index(self._filters[0])
            self._added[name] = [(now.index(entry) < first, entry) for entry in added]
            known.extend(added)

    def _note_at_exit(self, function, *args, **keywords):
        """Stands in for `atexit.register` while modules are loaded. It may be kept by one of them."""
        if self._atexit.register != self._note_at_exit:
            return self._register(function, *args, **keywords)
        self._ends.append((function, args, keywords))
        return function

    def _forget_at_exit(self, function):
        self._ends = [entry for entry in self._ends if entry[0] != function]
        self._unregister(function)

    def __exit__(self, *_):
        builtins.__import__ = self._import
        self._atexit.register, self._atexit.unregister = self._register, self._unregister
        _warnings.filters[:] = self._filters
        _forget_decisions()

    # Hiding

    def hide(self, private):
        """Takes everything off `sys.modules` that a fresh interpreter does not have. Modules of the
        package `private` are forgotten altogether."""
        for name in [name for name in sys.modules if name not in self._baseline]:
            module = sys.modules.pop(name)
            if name.partition(".")[0] != private:
                self._hidden[name] = module
        for name, module in self._hidden.items():
            parent, _, leaf = name.rpartition(".")
            holder = self._hidden.get(parent) or sys.modules.get(parent)
            if name in self._needs.get(parent, ()):
                # The package itself imports it.
                continue
            if holder is not None and vars(holder).get(leaf) is module:
                delattr(holder, leaf)
                self._attributes[name] = (holder, leaf)
        for name, module in self._hidden.items():
            if "." not in name:
                self._files[name] = _mark(getattr(module, "__spec__", None))
        self._loaded = dict(self._hidden)
        for entry in self._ends:
            # It belongs to the module that has defined it, whoever had it registered.
            owner = getattr(entry[0], "__module__", None)
            if owner in self._hidden:
                self._at_exit.setdefault(owner, []).append(entry)
            else:
                self._call_at_exit(entry)
        self._install()

    def _call_at_exit(self, entry):
        function, args, keywords = entry
        self._register(function, *args, **keywords)

    def _install(self):
        """Answers imports before the import system does, and leaves no trace in what it shows."""
        # The import system removes frames of this name from tracebacks.
        source = (
            "def _find_and_load(name, import_):\n"
            "    if name in hidden and restore(name):\n"
            "        return modules[name]\n"
            "    return find_and_load(name, import_)\n"
        )
        scope = {
            "__name__": "importlib._bootstrap",
            "hidden": self._hidden,
            "restore": self._restore,
            "modules": sys.modules,
            "find_and_load": bootstrap._find_and_load,
        }
        exec(compile(source, "<frozen importlib._bootstrap>", "exec"), scope)
        bootstrap._find_and_load = scope["_find_and_load"]

    def top_level(self):
        """Names of hidden modules a file in the program's directory could stand in front of."""
        return self._files.keys()

    def everything(self):
        """All modules that were loaded beforehand, hidden or not."""
        return self._loaded.values()

    # Coming back

    def _restore(self, name):
        if not self._is_what_would_be_found(name):
            return False
        wanted, waiting = {name}, [name]
        while waiting:
            current = waiting.pop()
            parent = current.rpartition(".")[0]
            for needed in (*self._needs.get(current, ()), parent):
                if needed in self._hidden and needed not in wanted:
                    wanted.add(needed)
                    waiting.append(needed)
        # In the order they were loaded in.
        for each in [each for each in self._hidden if each in wanted]:
            module = self._hidden.pop(each, None)
            if module is None:
                continue
            sys.modules.setdefault(each, module)
            if each in self._attributes:
                holder, leaf = self._attributes[each]
                vars(holder).setdefault(leaf, module)
            for front, entry in self._added.get(each, ()):
                _warnings.filters.insert(0 if front else len(_warnings.filters), entry)
                _forget_decisions()
            for entry in self._at_exit.get(each, ()):
                self._call_at_exit(entry)
            if each in _REFRESH:
                _REFRESH[each](module)
        return name in sys.modules

    def _is_what_would_be_found(self, name):
        top = name.partition(".")[0]
        if top in self._hidden:
            return _mark(bootstrap._find_spec(top, None)) == self._files[top]
        # The package is there already: it must be ours.
        return sys.modules.get(top) is self._loaded.get(top, sys.modules.get(top))


def _mark(spec):
    """What tells one module from another of the same name."""
    if spec is None:
        return None
    locations = list(spec.submodule_search_locations or ())
    try:
        stat = os.stat(spec.origin) if spec.has_location else None
    except OSError:
        stat = None
    state = stat and (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return (spec.origin, locations, state)
