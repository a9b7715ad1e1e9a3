

FACTORS = {"CSV": 10, "TSV": 10, "JSON": 8, "JSON, several documents": 8, "JSON Lines": 8, "Parquet": 8, "Excel": 40,
           "SQLite": 0, "text": 4}


def variable(path, taken):
    """A name for a file's data: valid, and no other's."""
    import keyword

    name = os.path.basename(path.rstrip("/"))
    while True:
        stem, ending = os.path.splitext(name)
        if not ending or not stem:
            break
        name = stem
    name = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")[:40] or "data"
    # What Python or the program itself calls so stays reachable.
    if name[0].isdigit() or keyword.iskeyword(name) or name in vars(builtins) or name in OWN:
        name = "data_" + name
    first, number = name, 2
    while name in taken:
        name, number = f"{first}_{number}", number + 1
    taken.add(name)
    return name


def total(values):
    """How many values there are, with all that is in them."""
    parts = (*values.fields.values(), *filter(None, (values.items, values.others)))
    return values.count + sum(map(total, parts))


def arrays_of(values, keys=()):
    """The arrays that keys of a document lead to: characters, values in them, keys, and number of elements."""
    for name, child in values.fields.items():
        # A key of this length may have been cut.
        if child.count == 1 and len(name) < LONGEST_KEY:
            if child.most:
                yield child.characters, total(child), [*keys, name], child.most
            yield from arrays_of(child, (*keys, name))


def records_of(about):
    """The keys that lead to the array whose elements are the records of a document of JSON, and their number: the longest
    one, where most values are in arrays. None where the file has no such document."""
    values = about.get("values")
    if about["format"] == "JSON" and values.count == 1:
        if values.lists:
            return [], values.most
        found = list(arrays_of(values))
        if found and 2 * sum(array[1] for array in found) >= total(values):
            return max(found, key=operator.itemgetter(0, 1))[2:]
    return None, about.get("records", about.get("lines", sum(table["records"] for table in about.get("tables", ()))))


def write_loader(path, files):
    """Writes `load_data.py` for what was described."""
    taken, seen, lines = set(), set(), []
    for about in files:
        form = about.get("format", "")
        if form not in FACTORS:
            continue
        where = os.path.abspath(about["path"])
        if where in seen:
            continue
        seen.add(where)
        known = about.get("read_bytes", 0) if about.get("packed") and not about.get("partial") else 0
        weight = (known or about["bytes"] * (6 if about.get("packed") else 1)) * FACTORS[form]
        # A column of few different values takes next to nothing in a Parquet file, and its full size in memory.
        weight = max(weight, about.get("records", 0) * len(about.get("columns", ())) * 16)
        about["variable"] = variable(where, taken)
        keys, count = records_of(about)
        entry = (where, form, about.get("packed", ""), about.get("delimiter"), about.get("names"), keys, weight, count)
        lines.append(f"    {about['variable']!r}: {entry!a},")
    none = "# None of the files has a format that can be loaded."
    source = LOADER.replace("# DATASETS", "\n".join(lines).lstrip() or none)
    try:
        # Whole or not at all, as every upload.
        with open(path + b".part", "w", encoding="utf-8") as file:
            file.write(source)
        os.replace(path + b".part", path)
    except OSError as error:
        sys.exit(f"the loader cannot be written: {error.strerror}")


LOADER = r'''"""Loads datasets, each when it is asked for:

    from load_data import NAME

`python3 load_data.py` lists the names. What does not fit into the memory that is free comes as `Records`: iterate over
it as often as needed, or take `sample(n)`. Of a document of JSON it has the elements of the longest array, and
`below(KEY, ...)` those of the array that these keys lead to. Generated; needs Python's own library, and uses pandas where
it is there.
"""

import bz2, csv, gzip, importlib.util, io, itertools, json, lzma, os, random, re, sqlite3, sys

# name: (path, format, packed with, what parts fields, names of columns that the file does not name, keys that lead to the
# array of the document that has the records, bytes that it takes in memory at most, records)
DATASETS = {
    # DATASETS
}
# The part of the free memory that one dataset may take.
SHARE = 0.5
# Characters of the longest record that is held at once; less where little memory is free.
LONGEST = 64 << 20
# Characters that are read at once.
STEP = 1 << 20
# Columns that are named, and records that are looked at for their types.
MOST_NAMED, LOOKED_AT = 10, 20
SCAN = json.JSONDecoder().raw_decode
BETWEEN = re.compile(r"[\s,]*")
# What is within a string, in pieces: each backslash takes memory until the end of the match.
WITHIN = re.compile(r'[^"\\]*(?:\\.[^"\\]*){0,1000}', re.DOTALL)
PANDAS = importlib.util.find_spec("pandas") is not None
csv.field_size_limit(1 << 24)


def free_memory():
    """Bytes that this process may still take: the machine's, and what its control groups leave."""
    free = []
    try:
        with open("/proc/meminfo") as file:
            free += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        pass
    groups = [""]
    try:
        with open("/proc/self/cgroup") as file:
            groups += [line.rstrip("\n").split(":", 2)[2] for line in file]
    except (OSError, IndexError):
        pass
    for group in groups:
        parts = group.strip("/").split("/")
        for depth in range(len(parts) + 1):
            folder = "/".join(parts[:depth])
            for root, most, used in (("/sys/fs/cgroup", "memory.max", "memory.current"),
                                     ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")):
                try:
                    with open(os.path.join(root, folder, most)) as limit, open(os.path.join(root, folder, used)) as now:
                        free.append(int(limit.read()) - int(now.read()))
                except (OSError, ValueError):
                    continue
    return max(min(free, default=256 << 20), 0)


def allowed():
    """Bytes that one dataset may take."""
    return int(free_memory() * SHARE)


def longest_record():
    """Characters that one record may have: in memory they take eight times as much."""
    return max(min(LONGEST, allowed() // 8), STEP)


def too_long(path, most, instead=""):
    return MemoryError(f"{path}: one record is longer than {most:,} characters; read it with a parser that streams"
                       + instead)


def warn(text):
    print(f"load_data: {text}", file=sys.stderr, flush=True)


def opened(path, packed):
    module = {"gzip": gzip, "bz2": bz2, "lzma": lzma}.get(packed)
    return module.open(path, "rb") if module else open(path, "rb")


def characters(path, packed):
    # Brings its own mark of the encoding, or is UTF-8.
    with opened(path, packed) as file:
        mark = file.read(2)
    encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return io.TextIOWrapper(opened(path, packed), encoding=encoding, errors="replace", newline="")


class Records:
    """The records of a file, or of one sheet of it, read anew by every iteration, one at a time."""

    def __init__(self, path, form, packed, mark, names, keys, weight, count, sheet=None):
        self.path, self.form, self.packed, self.mark, self.names = path, form, packed, mark, names
        self.keys, self.weight, self.count, self.sheet = keys, weight, count, sheet

    def __repr__(self):
        what = f"sheet {self.sheet!r}, " if self.sheet is not None else f"{place_of(self.keys)}, " if self.keys else ""
        many = f"about {self.count:,}, " if self.sheet is None and self.count is not None else ""
        return f"<Records of {self.path}: {what}{many}read while they are iterated over>"

    def __iter__(self):
        if self.form == "Parquet":
            return parquet_records(self.path)
        if self.form == "Excel":
            return sheet_records(self.path, self.sheet)
        if self.mark:
            return csv_records(self.path, self.packed, self.mark, self.names)
        if self.form in ("JSON Lines", "text"):
            return (json_lines if self.form == "JSON Lines" else text_lines)(self.path, self.packed)
        return json_records(self.path, self.packed, self.keys)

    def below(self, *keys):
        """The elements of the array of a document of JSON that these keys lead to."""
        return Records(self.path, self.form, self.packed, self.mark, self.names, keys, self.weight, None)

    def sample(self, size=1000, seed=0):
        """So many records, each as likely as any other."""
        chosen, dice = [], random.Random(seed)
        for number, record in enumerate(self):
            if number < size:
                chosen.append(record)
            elif (place := dice.randrange(number + 1)) < size:
                chosen[place] = record
        return chosen


def csv_records(path, packed, mark, names):
    with characters(path, packed) as file:
        yield from csv.DictReader(file, names, delimiter=mark)


def lines_of(path, packed):
    most = longest_record()
    with characters(path, packed) as file:
        while line := file.readline(most + 1):
            if len(line) > most:
                raise too_long(path, most)
            yield line


def text_lines(path, packed):
    yield from (line.rstrip("\r\n") for line in lines_of(path, packed))


def json_lines(path, packed):
    bad = 0
    for line in lines_of(path, packed):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError:
                bad += 1
    if bad:
        warn(f"{path}: {bad:,} lines left out: no JSON")


class Text:
    """The characters of a document of JSON, of which a part is held: `held` from `at` on is what comes next."""

    def __init__(self, file):
        self.file, self.held, self.at, self.over = file, "", 0, False

    def more(self, most=STEP):
        """Reads on, as much again as is held, so that a large value is not parsed over and over. False at the end."""
        rest = len(self.held) - self.at
        data = self.file.read(max(min(rest, most - rest), STEP))
        self.held, self.at, self.over = self.held[self.at:] + data, 0, not data
        return not self.over

    def next(self):
        """The character that is next but for spaces and commas, nothing at the end."""
        while True:
            self.at = BETWEEN.match(self.held, self.at).end()
            if self.at < len(self.held) or not self.more():
                return self.held[self.at:self.at + 1]

    def take(self, mark):
        """Passes a character if it is next."""
        found = self.next() == mark
        self.at += found
        return found

    def value(self, most=STEP):
        """What is next, in a tuple; None where it is broken, or has more than so many characters."""
        self.next()
        while True:
            try:
                value, end = SCAN(self.held, self.at)
                # A number may go on beyond what is held, as `1` of `1e+5` does before the `5`.
                if end + 2 < len(self.held) or self.over:
                    self.at = end
                    return (value,)
            except ValueError:
                pass
            if self.over or len(self.held) - self.at > most:
                return None
            self.more(most)

    def skip(self):
        """Passes a value of any length. False where it is broken."""
        depth = 0
        while first := self.next():
            if first in "]}:":
                self.at += 1
                depth -= first != ":"
            elif not self.passed_whole():
                if first in "[{":
                    self.at += 1
                    depth += 1
                elif first != '"' or not self.skip_string():
                    return False
            if depth <= 0:
                return True
        return False

    def passed_whole(self):
        try:
            return self.value() is not None
        except RecursionError:
            return False

    def skip_string(self):
        self.at += 1
        while True:
            self.at = WITHIN.match(self.held, self.at).end()
            if self.held[self.at:self.at + 1] == '"':
                self.at += 1
                return True
            if len(self.held) - self.at < 2 and not self.more():
                return False

    def enter(self, keys):
        """Goes to the first element of the array that keys lead to. False where there is none."""
        for key in keys:
            if not self.take("{"):
                return False
            while (name := self.value()) != (key,):
                if name is None or not self.take(":") or not self.skip():
                    return False
            if not self.take(":"):
                return False
        return self.take("[")


def json_records(path, packed, keys):
    """The elements of the array that keys lead to, or else the documents."""
    most = longest_record()
    with characters(path, packed) as file:
        text = Text(file)
        if keys is not None and not text.enter(keys):
            raise LookupError(f"{path}: there is no array {place_of(keys)}")
        while (first := text.next()) not in ("", "]", "}"):
            found = text.value(most)
            if found is None:
                if not text.over:
                    raise too_long(path, most, ", or one of its arrays with below(KEY, ...)" if keys is None else "")
                break
            yield found[0]
        if first != ("" if keys is None else "]"):
            warn(f"{path}: broken after this record; what follows is left out")


def needed(path, form, *modules):
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(f"{path}: {' and '.join(missing)} is needed to read {form} files, and not installed")


def parquet_records(path):
    """Read page by page: neither the file nor one of its groups of rows is ever in memory as a whole."""
    needed(path, "Parquet", "pyarrow")
    from pyarrow import parquet
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
        most = (8 << 20) * max(file.metadata.num_rows, 1) // max(sum(groups), 1)
        for batch in file.iter_batches(batch_size=min(max(most, 1), 4096), use_threads=False):
            yield from batch.to_pylist()


def opened_sheets(path):
    needed(path, "Excel", "openpyxl")
    import openpyxl
    return openpyxl.load_workbook(path, read_only=True, data_only=True)


def sheet_records(path, sheet):
    """Row by row; the first one has the names, as pandas would give them. All texts of the file are in memory once."""
    book = opened_sheets(path)
    try:
        names, blank = None, 0
        rows = book[sheet]
        # What writers say of the size need not be true.
        rows.reset_dimensions()
        for row in rows.iter_rows(values_only=True):
            if all(cell is None for cell in row):
                blank += names is not None
                continue
            if names is None:
                names = []
                for number, cell in enumerate(row):
                    first = name = f"Unnamed: {number}" if cell is None else str(cell)
                    again = 0
                    while name in names:
                        again += 1
                        name = f"{first}.{again}"
                    names.append(name)
                continue
            for _ in range(blank):
                yield dict.fromkeys(names)
            blank = 0
            yield dict(itertools.zip_longest(names, row[:len(names)]))
    finally:
        book.close()


def whole(dataset):
    path, form, packed, mark, names, *_ = dataset
    if form == "SQLite":
        from urllib.parse import quote
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    if form == "Excel":
        needed(path, form, "pandas", "openpyxl")
        import pandas
        return pandas.read_excel(path, sheet_name=None, engine="openpyxl")
    if form == "Parquet":
        needed(path, form, "pandas", *([] if importlib.util.find_spec("fastparquet") else ["pyarrow"]))
        import pandas
        return pandas.read_parquet(path)
    if mark and PANDAS:
        import pandas
        with characters(path, packed) as file:
            return pandas.read_csv(file, sep=mark, names=names, header=None if names else 0)
    if form == "JSON":
        with characters(path, packed) as file:
            return json.load(file)
    if form == "text":
        with characters(path, packed) as file:
            return file.read()
    return list(Records(*dataset))


def quoted(name):
    """A name as it is shown: in quotation marks unless it is a plain word."""
    name = str(name)
    name = name if len(name) <= 60 else name[:59] + "…"
    return name if name.isidentifier() else repr(name)


def place_of(keys):
    """Where an array is in a document."""
    return ".".join(map(quoted, keys)) + "[]"


def columns_in(data):
    """Names and types: of columns, keys, tables, or what the first records have."""
    if isinstance(data, sqlite3.Connection):
        return data.execute("select name, type from sqlite_master where type in ('table', 'view')").fetchall()
    if hasattr(data, "dtypes"):
        return list(data.dtypes.items())
    if isinstance(data, dict):
        return [(name, kind_of(value)) for name, value in data.items()]
    found = {}
    for record in itertools.islice(data, LOOKED_AT):
        if isinstance(record, dict):
            for name, value in record.items():
                found.setdefault(name, {})[kind_of(value)] = None
    return [(name, " or ".join(kinds)) for name, kinds in found.items()]


def kind_of(value):
    return "None" if value is None else type(value).__name__


def tell(line, data):
    """Says what a dataset is, and what its columns are."""
    print(line)
    try:
        named = columns_in(data)
    except Exception:
        # What is wrong with the data is told when it is used.
        return
    shown = [f"{quoted(name)}: {kind}" for name, kind in named[:MOST_NAMED]]
    if len(named) > MOST_NAMED:
        shown.append(f"and {len(named) - MOST_NAMED:,} more")
    if shown:
        print("  " + ", ".join(shown))


def load(name):
    """Loads one dataset, or what of it the memory allows."""
    dataset = DATASETS[name]
    path, form, *_, keys, weight, _ = dataset
    budget = allowed()
    if weight <= budget:
        data = whole(dataset)
        size = f"{len(data):,} long" if hasattr(data, "__len__") else "open"
        tell(f"{name}: {type(data).__name__}, {size}, from {path}", data)
        return data
    if form == "Excel":
        book = opened_sheets(path)
        data = {sheet.title: Records(*dataset, sheet.title) for sheet in book.worksheets}
        book.close()
        one, what = f"{name}[{next(iter(data), '')!r}]", "a dictionary of its sheets, each an iterator over its rows"
    else:
        if form == "Parquet":
            needed(path, form, "pyarrow")
        data, one = Records(*dataset), name
        what = f"an iterator over {place_of(keys) if keys else 'its records'}"
    warn(f"WARNING: {name} may take {weight >> 20:,} MiB of memory, and {budget >> 20:,} MiB may be used.")
    warn(f"WARNING: {name} is NOT loaded: it is {what}. Use `for record in {one}`, or "
         f"`{one}.sample(1000)` for a sample of all of them.")
    if keys:
        warn(f"WARNING: the rest of the document is not in it; `{one}.below(KEY, ...)` iterates over another of its "
             "arrays.")
    tell(f"{name}: {data!r}", data)
    return data


def __getattr__(name):
    if name not in DATASETS:
        raise AttributeError(f"there is no dataset {name!r}; there are: {', '.join(DATASETS) or 'none'}")
    globals()[name] = load(name)
    return globals()[name]


def listed():
    budget = allowed()
    for name, (path, form, *_, keys, weight, count) in DATASETS.items():
        inside, over = (f" in {place_of(keys)}", f" over {place_of(keys)}") if keys else ("", "")
        how = "loads whole" if weight <= budget else f"OVER BUDGET: comes as an iterator{over}"
        print(f"{name}: {form}, {count:,} records{inside}, at most {weight >> 20:,} MiB, {how}: {path}")
    print(f"{budget >> 20:,} MiB may be used for one dataset. Load one with: from load_data import NAME")


if __name__ == "__main__":
    listed()
'''

# The names that the program has for itself.
OWN = frozenset(compile(LOADER, "load_data.py", "exec").co_names)
