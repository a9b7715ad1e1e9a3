

NUMBER = re.compile(r"[ ]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ ]*")
WHOLE = re.compile(r"[ ]*[+-]?\d{1,300}[ ]*")
EMPTY = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"))
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def typed(column):
    """The values of a column of texts: numbers where all are, or most."""
    step = max(len(column) // 50, 1)
    some = [value for value in column[::step] if value not in EMPTY]
    numbers = sum(1 for value in some if NUMBER.fullmatch(value))
    if some and numbers * 2 > len(some):
        # All at once where that works: `int` and `float` take more than is meant, but not in a column of numbers.
        for kind in (int, float):
            try:
                return list(map(kind, column))
            except ValueError:
                continue
        return [number(value) for value in column]
    if some and all(value in TRUTH for value in some):
        return [TRUTH.get(value, None if value in EMPTY else value) for value in column]
    if "" in column:
        return [value or None for value in column]
    return column


def number(value):
    if value in EMPTY:
        return None
    if WHOLE.fullmatch(value):
        return int(value)
    return float(value) if NUMBER.fullmatch(value) else value


class Table:
    """Columns that come as rows of texts or of values."""

    def __init__(self, sketched):
        self.values = Values(sketched)
        self.rows = 0
        self.names = []
        self.uneven = 0

    def name(self, names):
        for place, name in enumerate(names[:MOST_FIELDS]):
            name = name.strip()[:LONGEST_KEY] or f"column{place + 1}"
            while name in self.names:
                name += "_"
            self.names.append(name)
            self.values.field(name)

    def add(self, rows, texts=True):
        self.rows += len(rows)
        self.values.count += len(rows)
        self.values.objects += len(rows)
        width = len(self.names)
        even = [row for row in rows if len(row) == width]
        if len(even) < len(rows):
            for row in rows:
                if len(row) != width:
                    # What is missing is nothing, what is too much is left out.
                    self.uneven += 1
                    even.append(([*row] + [""] * width)[:width])
        for name, column in zip(self.names, zip(*even)):
            self.values.fields[name].add(typed(column) if texts else column, 1)


def delimiter(head, path):
    """By what the fields of a line are parted, if this looks like a table."""
    lines = head.split("\n")[:60]
    lines = [line for line in (lines[:-1] or lines) if line.strip()][:50]
    best, columns = None, 1
    for mark in ",\t;|":
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=mark) if row]
        except csv.Error:
            continue
        if not widths:
            continue
        width = max(set(widths), key=widths.count)
        if width > columns and widths.count(width) * 10 >= len(widths) * 8:
            best, columns = mark, width
    if best is None and path.lower().endswith((".csv", ".tsv")):
        return "\t" if path.lower().endswith(".tsv") else ","
    if best is None or path.lower().endswith((".csv", ".tsv")):
        return best
    # Prose has commas too: a table has more than one line, and the same number of fields in all.
    return best if len(lines) > 1 else None


def describe_csv(about, text, mark, sketched):
    about["delimiter"] = mark
    names = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    about["format"] = "TSV" if mark == "\t" else "CSV"
    if mark not in ",\t":
        about["notes"].append(f"fields are parted by {names[mark]}")
    table = Table(sketched)
    about["values"] = table.values
    csv.field_size_limit(LONGEST_LINE)
    lines = itertools.chain.from_iterable(io.StringIO(block, newline="\n") for block in blocks(text, about))
    reader = csv.reader(lines, delimiter=mark)
    try:
        rows = list(itertools.islice(filter(None, reader), 2))
        if not rows:
            raise Failure("has no lines")
        first = rows[0]
        heading = len(set(first)) == len(first) and not any(
            NUMBER.fullmatch(value) or not value.strip() for value in first
        )
        heading = heading and not (len(rows) == 1 and len(first) == 1)
        table.name(first if heading else [f"column{place + 1}" for place in range(len(first))])
        if len(first) > MOST_FIELDS:
            about["notes"].append(f"only the first {MOST_FIELDS} of {len(first):,} columns are described")
        if not heading:
            about["names"] = table.names
            about["notes"].append("no line with the names of the columns")
        width = len(table.names)
        batch = rows[1:] if heading else rows
        size = max(200, min(20_000, 200_000 // max(width, 1)))
        while batch:
            if len(first) > width:
                batch = [row[:width] for row in batch]
            table.add(batch)
            about["records"] = table.rows
            text.clock.check()
            batch = list(itertools.islice(filter(None, reader), size))
        about["records"] = table.rows
    except csv.Error as error:
        raise Failure(f"is broken at line {reader.line_num:,}: {clean(str(error))}; is a quote left open?") from None
    finally:
        if table.uneven:
            about["notes"].append(f"{plural(table.uneven, 'record')} with another number of fields")


def describe_text(about, text):
    about["format"] = "text"
    lines = longest = words = 0
    first = ""
    for block in blocks(text, about):
        parts = block.split("\n")
        first = first or next((line for line in parts if line.strip()), "")
        longest = max(longest, *map(len, parts))
        lines += block.count("\n") + (not block.endswith("\n"))
        words += len(block.split())
    about["lines"], about["longest_line"], about["words"] = lines, longest, words
    if first:
        about["notes"].append(f"begins: {short(clean(first), 200)}")
