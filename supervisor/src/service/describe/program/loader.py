

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
        count = about.get("records", about.get("lines", sum(table["records"] for table in about.get("tables", ()))))
        entry = (where, form, about.get("packed", ""), about.get("delimiter"), about.get("names"), weight, count)
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
it as often as needed, or take `sample(n)`. Generated; needs Python's own library, and uses pandas where it is there.
"""

import bz2, csv, gzip, importlib.util, io, itertools, json, lzma, os, random, re, sqlite3, sys

# name: (path, format, packed with, what parts fields, names of columns that the file does not name, bytes that it takes
# in memory at most, records)
DATASETS = {
    # DATASETS
}
# The part of the free memory that one dataset may take.
SHARE = 0.5
# Characters of the longest record that is held at once.
LONGEST = 64 << 20
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

    def __init__(self, path, form, packed, mark, names, weight, count, sheet=None):
        self.path, self.form, self.packed, self.mark, self.names = path, form, packed, mark, names
        self.weight, self.count, self.sheet = weight, count, sheet

    def __repr__(self):
        what = f"about {self.count:,}" if self.sheet is None else f"sheet {self.sheet!r}"
        return f"<Records of {self.path}: {what}, read while they are iterated over>"

    def __iter__(self):
        if self.form == "Parquet":
            return parquet_records(self.path)
        if self.form == "Excel":
            return sheet_records(self.path, self.sheet)
        if self.mark:
            return csv_records(self.path, self.packed, self.mark, self.names)
        read = {"JSON Lines": json_lines, "text": text_lines}.get(self.form, json_records)
        return read(self.path, self.packed)

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


def text_lines(path, packed):
    with characters(path, packed) as file:
        yield from (line.rstrip("\r\n") for line in file)


def json_lines(path, packed):
    bad = 0
    with characters(path, packed) as file:
        for line in file:
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError:
                    bad += 1
    if bad:
        warn(f"{path}: {bad:,} lines left out: no JSON")


def json_records(path, packed):
    """The elements of the array at the top, or else the documents."""
    scan, space = json.JSONDecoder().raw_decode, re.compile(r"[\s,]*")
    with characters(path, packed) as file:
        held, at, over = file.read(1 << 20), 0, False
        first = space.match(held).end()
        if held[first:first + 1] == "[":
            at = first + 1
        step = 1 << 20
        while True:
            at = space.match(held, at).end()
            try:
                value, end = scan(held, at)
                if end == len(held) and not over:
                    raise ValueError
            except ValueError:
                if held[at:at + 1] == "]" or over:
                    if held[at:at + 1] not in ("]", ""):
                        warn(f"{path}: broken after this record; what follows is left out")
                    return
                if len(held) - at > LONGEST:
                    raise MemoryError(f"{path}: one record is longer than {LONGEST:,} characters; read it with a parser "
                                      "that streams") from None
                # As much again each time, so that one large record is not read over and over.
                data = file.read(step)
                step, held, at, over = max(1 << 20, len(held) - at), held[at:] + data, 0, not data
            else:
                at = end
                yield value


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
    path, form, packed, mark, names = dataset[:5]
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


def load(name):
    """Loads one dataset, or what of it the memory allows."""
    dataset = DATASETS[name]
    path, form, weight = dataset[0], dataset[1], dataset[5]
    budget = int(free_memory() * SHARE)
    if weight <= budget:
        data = whole(dataset)
        size = f"{len(data):,} long" if hasattr(data, "__len__") else "open"
        print(f"{name}: {type(data).__name__}, {size}, from {path}")
        return data
    if form == "Excel":
        book = opened_sheets(path)
        data = {sheet.title: Records(*dataset, sheet.title) for sheet in book.worksheets}
        book.close()
        one, what = f"{name}[{next(iter(data), '')!r}]", "a dictionary of its sheets, each an iterator over its rows"
    else:
        if form == "Parquet":
            needed(path, form, "pyarrow")
        data, one, what = Records(*dataset), name, "an iterator over its records"
    warn(f"WARNING: {name} may take {weight >> 20:,} MiB of memory, and {budget >> 20:,} MiB may be used.")
    warn(f"WARNING: {name} is NOT loaded: it is {what}. Use `for record in {one}`, or "
         f"`{one}.sample(1000)` for a sample of all of them.")
    print(f"{name}: {data!r}")
    return data


def __getattr__(name):
    if name not in DATASETS:
        raise AttributeError(f"there is no dataset {name!r}; there are: {', '.join(DATASETS) or 'none'}")
    globals()[name] = load(name)
    return globals()[name]


if __name__ == "__main__":
    budget = int(free_memory() * SHARE)
    for name, (path, form, *_, weight, count) in DATASETS.items():
        how = "loads whole" if weight <= budget else "OVER BUDGET: comes as an iterator"
        print(f"{name}: {form}, {count:,} records, at most {weight >> 20:,} MiB, {how}: {path}")
    print(f"{budget >> 20:,} MiB may be used for one dataset. Load one with: from load_data import NAME")
'''

# The names that the program has for itself.
OWN = frozenset(compile(LOADER, "load_data.py", "exec").co_names)
