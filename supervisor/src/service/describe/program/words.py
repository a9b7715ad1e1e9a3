

class Level:
    """How much is said."""

    def __init__(self, examples, distinct, fields, depth, example):
        self.examples = examples
        self.distinct = distinct
        self.fields = fields
        self.depth = depth
        self.example = example


# From all to next to nothing: the first that fits is used.
LEVELS = [
    Level(3, 10, 200, 12, 60), Level(2, 6, 100, 8, 40), Level(2, 4, 60, 6, 30), Level(1, 3, 40, 5, 24),
    Level(1, 0, 30, 4, 20), Level(0, 0, 25, 3, 0), Level(0, 0, 15, 2, 0), Level(0, 0, 8, 1, 0), Level(0, 0, 4, 0, 0),
]


def kinds(values):
    """Which kinds of values there are, and how many of each."""
    found = {
        "int": values.ints, "float": values.floats, "string": values.strings, "bool": values.bools,
        "array": values.lists, "object": values.objects, "blob": values.blobs,
    }
    return {word: count for word, count in found.items() if count}


def shown(value, limit):
    if type(value) is str:
        return '"' + clean(short(value, limit)) + '"'
    return short(repr(value), 24)


def plural(count, word):
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def span(low, high):
    return shown(low, 40) if low == high else f"{shown(low, 40)}..{shown(high, 40)}"


def is_unique(values):
    """Whether no value occurs twice, as far as that is known."""
    present = values.count - values.nulls
    if present < 2 or values.lists or values.objects or values.bools or values.blobs:
        return False
    if values.distinct is not None:
        return len(values.distinct) == present
    # As many as a sketch tells from all: four times what it is usually off by.
    return values.sketch is not None and values.sketch.distinct() >= (1 - 4 / SKETCH ** 0.5) * present


def scalar(values, word, level):
    """What is said of the values of one kind."""
    if word in ("int", "float"):
        return f"{word} {span(values.low, values.high)}" if values.low is not None else word
    if word == "bool":
        return f"bool, {values.trues / values.bools:.0%} true"
    if word == "blob":
        return f"blob of {values.shortest:,}..{values.longest:,} bytes"
    if word == "array":
        return f"array[{values.least:,}" + (f"..{values.most:,}]" if values.most != values.least else "]")
    if word == "object":
        return f"object, a map with more than {MOST_FIELDS} different keys" if is_map(values) else "object"
    if values.dates and values.first is not None:
        return f"date {clean(values.first)}..{clean(values.last)}"
    text = f"string of {values.shortest:,}" + (f"..{values.longest:,}" if values.longest != values.shortest else "")
    texts = values.distinct and [value for value in values.distinct if type(value) is str]
    if texts and 0 < len(texts) <= level.distinct and len(texts) < values.strings:
        return f"string, {len(texts)} distinct: " + ", ".join(shown(value, level.example) for value in sorted(texts))
    examples = [value for value in values.examples if type(value) is str][:level.examples]
    if examples:
        text += ", such as " + ", ".join(shown(value, level.example) for value in examples)
    return text


def summary(values, level, of=None):
    """One line about values, of which there could be `of`."""
    found = kinds(values)
    if found.get("int") and found.get("float"):
        # The range is of both.
        found = {"float": found.pop("int") + found.pop("float"), **found}
    total = sum(found.values())
    if not found:
        text = "null" if values.nulls else "nothing"
    elif len(found) == 1:
        text = scalar(values, *found, level)
    else:
        ordered = sorted(found, key=found.get, reverse=True)
        text = "mixed: " + "; ".join(f"{found[word] / total:.1%} {scalar(values, word, level)}" for word in ordered)
    if is_unique(values):
        text += ", unique"
    if values.nulls and found:
        text += f", {values.nulls:,} null"
    if of is not None and values.count < of:
        text += f", missing in {of - values.count:,} of {of:,}"
    return text


def outline(name, values, level, indent, of=None):
    """Lines about values and what is in them."""
    text = f"{'  ' * indent}{name}: {summary(values, level, of)}"
    inner = values
    while inner.items is not None and inner.items.count and indent <= level.depth:
        inner = inner.items
        text += " of objects" if set(kinds(inner)) == {"object"} and not inner.nulls else f" of {summary(inner, level)}"
    lines = [text]
    if inner.fields:
        lines += field_lines(inner, level, indent + 1)
    if values is not inner and values.fields:
        lines += field_lines(values, level, indent + 1)
    return lines


def is_map(values):
    """Whether the keys of objects are data themselves: many, and few of them in many objects."""
    if values.others is None:
        return False
    present = sum(child.count for child in values.fields.values())
    return values.objects == 1 and values.others.count >= MOST_FIELDS or present < 0.3 * len(values.fields) * values.objects


def field_lines(values, level, indent):
    if indent > level.depth:
        return [f"{'  ' * indent}… {plural(len(values.fields), 'key')}"] if values.fields else []
    lines = []
    most = 3 if is_map(values) else level.fields
    for name, child in itertools.islice(values.fields.items(), most):
        lines += outline(clean(name), child, level, indent, None if is_map(values) else values.objects)
    if len(values.fields) > most:
        lines.append(f"{'  ' * indent}… {plural(len(values.fields) - most, 'more key')}")
    if values.others is not None:
        lines += outline("(other keys)", values.others, level, indent)
    return lines


def size(count):
    for word in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or word == "GB":
            return f"{count:,} {word}" if word == "bytes" else f"{count:,.1f} {word}"
        count /= 1000


def record_values(values):
    """Where the records of a document are: its own values, or the elements of the one array at its top."""
    if values.count == 1 and values.lists == 1 and values.items is not None:
        return values.items
    return values


def file_lines(about, level):
    parts = [clean(about["path"]), about.get("format", "")]
    if about.get("format") == "directory":
        below = about.get("directories", 0)
        parts.append(plural(about.get("files", 0), "file") + (f", {below:,} directories below" if below else ""))
    if "records" in about:
        parts.append(plural(about["records"], "record"))
    if "lines" in about:
        parts.append(f"{plural(about['lines'], 'line')}, the longest of {about['longest_line']:,} characters")
    if about.get("bytes") is not None:
        parts.append(size(about["bytes"]))
    lines = [" | ".join(part for part in parts if part)]
    if about.get("error"):
        lines.append(f"  ERROR: it {about['error']}" + ("; what is before that:" if about.get("values") else ""))
    if about.get("partial"):
        lines.append(f"  INCOMPLETE: the time was over after {size(about['read_bytes'])}; this is about what was read")
    if about.get("broken_lines"):
        lines.append(f"  {plural(about['broken_lines'], 'line')} left out: no JSON; the first is {about['first_broken']}")
    if about.get("long_lines"):
        lines.append(f"  {plural(about['long_lines'], 'line')} of more than {size(LONGEST_LINE)} left out")
    lines += [f"  {note}" for note in about["notes"]]
    extensions = sorted(about.get("extensions", {}).items(), key=lambda item: -item[1][0])
    for ending, (count, bytes_) in extensions[:max(level.fields // 8, 3)]:
        lines.append(f"  {clean(ending) or 'without ending'}: {plural(count, 'file')}, {size(bytes_)}")
    columns = about.get("columns", {})
    if columns and about.get("values") is not None:
        # Their number in the footer is of the parts of what is nested.
        seen = about["values"].fields
        for name, child in itertools.islice(seen.items(), level.fields):
            lines += outline(name, child, level, 1)
        if len(seen) > level.fields:
            lines.append(f"  … {plural(len(seen) - level.fields, 'more column')}")
        columns = {name: column for name, column in columns.items() if name.partition(".")[0] not in seen}
    elif about.get("values") is not None:
        records = record_values(about["values"])
        lines += field_lines(records, level, 1)
        if not records.objects or len(kinds(records)) > 1 or records.items is not None:
            lines[1:1] = outline("records", records, level, 1)[:1]
    for name, column in itertools.islice(columns.items(), level.fields):
        text = f"  {name}: {column['type']}"
        if "min" in column and "max" in column:
            text += f" {span(column['min'], column['max'])}"
        lines.append(text + (f", {column['nulls']:,} null" if column.get("nulls") else ""))
    for table in about.get("tables", ())[:level.fields]:
        lines.append(f"  table {table['name']} | {plural(table['records'], 'record')}")
        lines += [f"    {note}" for note in table["notes"]]
        if table.get("values") is not None:
            lines += field_lines(table["values"], level, 2)
    return lines


def text_of(files, joins, limit):
    """All of it in at most so many characters."""
    for level in LEVELS:
        lines = [line for about in files for line in file_lines(about, level)]
        if joins:
            lines.append("may belong together:")
            lines += [f"  {join['text']}" for join in joins]
        text = "\n".join(lines)
        if len(text) <= limit:
            return text
    mark = "\n… (cut)"
    return text[:limit - len(mark)] + mark


def value_structure(values, level, depth=0):
    found = {"count": values.count, "types": kinds(values)}
    pairs = [("nulls", values.nulls), ("min", values.low), ("max", values.high), ("min_length", values.shortest),
             ("max_length", values.longest), ("min_items", values.least), ("max_items", values.most)]
    if values.dates:
        pairs += [("first", values.first), ("last", values.last)]
    for name, value in pairs:
        # Numbers that JSON has no word for are left out.
        if value and (type(value) is not float or abs(value) < float("inf")):
            found[name] = clean(value) if type(value) is str else value
        elif value == 0 and name in ("min", "max", "min_items", "max_items", "min_length"):
            found[name] = 0
    if values.bools:
        found["true"] = values.trues
    if values.distinct:
        found["distinct"] = len(values.distinct)
    if is_unique(values):
        found["unique"] = True
    if values.examples and level.examples:
        finite = [value for value in values.examples if type(value) is not float or abs(value) < float("inf")]
        found["examples"] = [
            clean(short(value, level.example)) if type(value) is str else value for value in finite[:level.examples]
        ]
    if depth >= level.depth:
        return found
    if values.items is not None:
        found["items"] = value_structure(values.items, level, depth + 1)
    if values.fields:
        chosen = itertools.islice(values.fields.items(), level.fields)
        found["fields"] = {clean(name): value_structure(child, level, depth + 1) for name, child in chosen}
        if len(values.fields) > level.fields:
            found["more_fields"] = len(values.fields) - level.fields
    if values.others is not None:
        found["others"] = value_structure(values.others, level, depth + 1)
    return found


def file_structure(about, level):
    found = {name: value for name, value in about.items() if name not in ("values", "tables", "columns", "extensions")}
    found["path"] = clean(found["path"])
    if about.get("values") is not None:
        found["values"] = value_structure(about["values"], level)
    if about.get("columns"):
        found["columns"] = dict(itertools.islice(about["columns"].items(), level.fields))
    if about.get("tables"):
        found["tables"] = [
            {**table, "values": value_structure(table["values"], level) if table.get("values") is not None else None}
            for table in about["tables"][:level.fields]
        ]
    if about.get("extensions"):
        top = sorted(about["extensions"].items(), key=lambda item: -item[1][0])[:max(level.fields, 4)]
        found["extensions"] = {clean(ending): {"files": count, "bytes": bytes_} for ending, (count, bytes_) in top}
    return found


def structure_of(files, joins, limit):
    """All of it as an object whose JSON has at most so many bytes."""
    for level in LEVELS:
        found = {"files": [file_structure(about, level) for about in files], "joins": joins}
        if len(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")) <= limit:
            return found
    return {"files": [], "joins": [], "cut": True}
