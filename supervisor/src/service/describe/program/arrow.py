

# Records of a Parquet file whose values are looked at for show; of the others the footer must do.
MOST_SHOWN = 10_000
# Records whose keys are compared with those of other files, and columns that are.
MOST_COMPARED = 2_000_000
MOST_KEYS = 40
# Records, and bytes of them, that are held at once.
MOST_HELD = 1024
HELD = 8 << 20
# The part of a second in a moment that has none.
NO_FRACTION = re.compile(r"\.0+(?=Z?$)")
AS_JSON = {int, float, str, bool, bytes, type(None)}


def describe_parquet_values(about, file, clock, sketched):
    """Looks at values, of which the footer tells little and nothing that could be compared. Needs pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        about["notes"].append("only its footer was read: its values are looked at where pyarrow is installed")
        return
    values = Values(sketched)
    try:
        file.seek(0)
        # Without a buffer for whole groups of rows, and in one thread.
        reader = parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
        look_at(about, values, reader, pyarrow, clock, sketched)
    except (OutOfTime, MemoryError):
        about["notes"].append("its values were looked at only in part: there was too little time or memory")
    except Exception as error:
        # Whatever a damaged file makes of its reader. The footer was read all the same.
        about["notes"].append(f"its values cannot be read: {short(clean(str(error)), 120)}")
    if values.fields:
        values.count = values.objects = max(child.count for child in values.fields.values())
        about["values"] = values


def look_at(about, values, reader, pyarrow, clock, sketched):
    total = about["records"]
    weight = sum(reader.metadata.row_group(number).total_byte_size for number in range(reader.num_row_groups))
    held = max(1, min(MOST_HELD, HELD * max(total, 1) // max(weight, 1)))
    names = [field.name for field in reader.schema_arrow][:MOST_FIELDS]
    # In the order of the file, whichever is looked at first.
    for name in names:
        values.field(clean(name))
    keys = [field.name for field in reader.schema_arrow if sketched and is_key(field.type, pyarrow.types)][:MOST_KEYS]
    try:
        if keys:
            seen = pour(values, reader, keys, held, MOST_COMPARED, clock.share(2), pyarrow)
            if seen < total:
                about["notes"].append(f"its keys were compared by the first {seen:,} records")
        rest = [name for name in names if name not in keys]
        seen = pour(values, reader, rest, held, MOST_SHOWN, clock, pyarrow) if rest else total
        if seen < total:
            about["notes"].append(f"its values are shown by the first {seen:,} records")
    finally:
        for name, child in list(values.fields.items()):
            column = about["columns"].get(name[:LONGEST_KEY], {})
            if not child.count:
                del values.fields[name]
            elif child.count < total and name not in map(clean, keys):
                # Nothing is claimed of records that nobody has seen, but what the footer says of them.
                forget_distinct(child)
                child.nulls = column.get("nulls", child.nulls)
                if child.low is not None and type(column.get("min")) in (int, float) and "max" in column:
                    child.low, child.high = column["min"], column["max"]
                if child.dates and column.get("type") == "date" and "min" in column and "max" in column:
                    child.first, child.last = column["min"], column["max"]


def is_key(kind, types):
    """Whether values of this type may name records."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)


def pour(values, reader, names, held, most, clock, pyarrow):
    """Adds the values of these columns, of at most so many records; how many it were."""
    seen = 0
    for batch in reader.iter_batches(batch_size=held, columns=names, use_threads=False):
        for field, column in zip(batch.schema, batch.columns):
            values.field(clean(field.name)).add(listed(column, pyarrow), 1)
        seen += batch.num_rows
        if seen >= most:
            break
        try:
            clock.check()
        except OutOfTime:
            # What was seen is told all the same.
            break
    return seen


def listed(column, pyarrow):
    """A column's values as those of JSON."""
    if pyarrow.types.is_temporal(column.type) and not pyarrow.types.is_duration(column.type):
        return [text and NO_FRACTION.sub("", text) for text in column.cast(pyarrow.string()).to_pylist()]
    found = column.to_pylist()
    return found if set(map(type, found)) <= AS_JSON else [plain(value) for value in found]


def plain(value):
    if type(value) in AS_JSON:
        return value
    if type(value) is list:
        return [plain(one) for one in value]
    if type(value) is dict:
        return {clean(str(name)): plain(one) for name, one in value.items()}
    try:
        # A number that is exact.
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def forget_distinct(values):
    values.distinct = values.sketch = None
    for child in (values.items, values.others, *values.fields.values()):
        if child is not None:
            forget_distinct(child)
