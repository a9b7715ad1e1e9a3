"""Modules that are loaded but not imported yet, as far as the program can tell.

While modules are loaded it is recorded what each of them needs. Then everything a fresh interpreter
would not have is taken out of `sys.modules`. When the program imports one of them, it comes back
together with what it needs, provided that the import would find the same modules, all the way down:
the program may have put others first on its path, blocked some, or replaced them. If it would not, the
module is loaded as any other. What it wants to be called at the end of the interpreter is called only if
it has come back, and so are its loggers and warning filters there.
"""

import _frozen_importlib as bootstrap
import _warnings
import builtins
import os
import sys

# Modules that hold randomness or a moment of the past, and how they are made fresh. Called when the
# module comes back, so before the program can use it.
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
    # Where processes that are spawned begin, and look for modules.
    module.ORIGINAL_DIR = os.path.abspath(os.getcwd())


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


class HiddenModules:
    """What is loaded and hidden."""

    def __init__(self, baseline):
        self._baseline = {name: sys.modules[name] for name in baseline}
        self._needs = {}
        self._hidden = {}
        self._loaded = {}
        self._files = {}
        self._attributes = {}
        self._under_way = []
        self._filters, self._noted, self._added = [], [], {}
        self._ends, self._at_exit = [], {}
        self._known_loggers, self._loggers = {}, {}
        self._absent, self._expected, self._own = frozenset(), None, ()

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
                self._note_loggers(target)

    def _note_filters(self, name):
        """Records the warning filters a module has set."""
        known, now = self._noted, list(_warnings.filters)
        added = [entry for entry in now if entry not in known and entry not in self._filters]
        if added:
            first = now.index(self._filters[0])
            self._added[name] = [(now.index(entry) < first, entry) for entry in added]
            known.extend(added)

    def _note_loggers(self, name):
        """Records the loggers a module has made."""
        logging = sys.modules.get("logging")
        for each, logger in _loggers(logging).items():
            if each not in self._known_loggers and isinstance(logger, logging.Logger):
                self._known_loggers[each] = logger
                self._loggers.setdefault(name, []).append(logger)

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
        needed = {name.partition(".")[0] for names in self._needs.values() for name in names}
        self._absent = frozenset(needed - self._files.keys() - self._baseline.keys() - {private, "__main__"})
        _loggers(self._hidden.get("logging")).clear()
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

    def expect(self, path):
        """Says what the program's path is when it starts."""
        self._expected = (list(path), list(sys.meta_path), list(sys.path_hooks))
        self._own = [entry or "." for entry in path if not entry or _is_users(entry)]

    def shadowed_by(self, directory):
        """Whether a file in `directory` has the name of a hidden module, or of one that a hidden module would use
        if it were there."""
        try:
            names = os.listdir(directory)
        except OSError:
            return False
        for name in names:
            stem, _, extension = name.partition(".")
            if stem in self._files or stem in self._absent:
                if extension or os.path.exists(os.path.join(directory, name, "__init__.py")):
                    return True
        return False

    def everything(self):
        """All modules that were loaded beforehand, hidden or not."""
        return self._loaded.values()

    # Coming back

    def _restore(self, name):
        needed = self._all_needs(name)
        if not self._are_what_would_be_found(needed):
            # It is loaded, and so is everything else of its package.
            top = name.partition(".")[0]
            for each in [each for each in self._hidden if each.partition(".")[0] == top]:
                del self._hidden[each]
            return False
        wanted = needed & self._hidden.keys()
        # In the order they were loaded in.
        for each in [each for each in self._hidden if each in wanted]:
            module = self._hidden.pop(each, None)
            if module is None:
                continue
            sys.modules[each] = module
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
            for logger in self._loggers.get(each, ()):
                _bring_back(sys.modules["logging"], logger)
        return name in sys.modules

    def _all_needs(self, name):
        """Names of everything a module needs, itself included."""
        needed, waiting = {name}, [name]
        while waiting:
            current = waiting.pop()
            for each in (*self._needs.get(current, ()), current.rpartition(".")[0]):
                if each and each not in needed:
                    needed.add(each)
                    waiting.append(each)
        return needed

    def _are_what_would_be_found(self, needed):
        """Whether the import system would find, for each of these names, what was loaded."""
        modules, nothing = sys.modules, object()
        for name in needed:
            known = self._loaded.get(name, self._baseline.get(name))
            there = modules.get(name, nothing)
            if known is None:
                # Whether it is blocked or not there is the same.
                if name in self._absent and there is not nothing and there is not None:
                    return False
            elif there is not known and (there is not nothing or name not in self._hidden):
                # The program has blocked it, put another one in its place, or thrown it out.
                return False
        if self._expected == (sys.path, sys.meta_path, sys.path_hooks) and not any(map(self.shadowed_by, self._own)):
            return True
        for top in {name.partition(".")[0] for name in needed}:
            if top in self._hidden and _mark(bootstrap._find_spec(top, None)) != self._files[top]:
                return False
            if top in self._absent and top not in modules and bootstrap._find_spec(top, None) is not None:
                return False
        return True


def _is_users(directory):
    """Whether a directory is somebody else's than root's, who has made the image."""
    try:
        return os.stat(directory).st_uid != 0
    except OSError:
        return False


def _loggers(logging):
    """The table of loggers."""
    return logging.root.manager.loggerDict if hasattr(logging, "root") else {}


def _bring_back(logging, logger):
    """Puts a logger back into the table as if it were made now."""
    manager, name = logging.root.manager, logger.name
    there = manager.loggerDict.get(name)
    if isinstance(there, logging.Logger):
        # The program was first: both are the same from now on.
        logger.__dict__ = there.__dict__
        return
    manager.loggerDict[name] = logger
    if there is not None:
        manager._fixupChildren(there, logger)
    manager._fixupParents(logger)


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
