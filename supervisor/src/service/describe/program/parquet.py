

class Thrift:
    """Reads the compact form that Parquet's footer is written in. Structures are dictionaries by field number."""

    def __init__(self, data):
        self.data = data
        self.at = 0
        self.left = 2_000_000

    def byte(self):
        if self.at >= len(self.data):
            raise Failure("is broken: its footer ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 70:
                raise Failure("is broken: a number in its footer is too long")

    def signed(self):
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def binary(self):
        size = self.varint()
        if size > len(self.data) - self.at:
            raise Failure("is broken: its footer ends too early")
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind, depth):
        self.left -= 1
        if depth > 16 or self.left < 0:
            raise Failure("is broken: its footer is nested too deep, or too large")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind == 7:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8:self.at].ljust(8, b"\0"))[0]
        if kind == 8:
            return self.binary()
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4
            if size == 15:
                size = self.varint()
            of = head & 15
            if size > len(self.data) - self.at:
                raise Failure("is broken: a list in its footer is too long")
            # The elements of a list of truths are bytes.
            return [self.byte() == 1 if of in (1, 2) else self.value(of, depth + 1) for _ in range(size)]
        if kind == 12:
            return self.structure(depth + 1)
        raise Failure("is broken: its footer has something unknown in it")

    def structure(self, depth=0):
        fields, number = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.signed()
            fields[number] = self.value(head & 15, depth)


PHYSICAL = {0: "bool", 1: "int", 2: "int", 3: "timestamp", 4: "float", 5: "float", 6: "binary", 7: "binary"}
CONVERTED = {0: "string", 4: "enum", 5: "decimal", 6: "date", 7: "time", 8: "time", 9: "timestamp", 10: "timestamp",
             19: "string"}
FORMS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}


def bound(data, physical, word):
    """A least or greatest value from its bytes."""
    if not data:
        return None
    if word == "string":
        return short(clean(data.decode("utf-8", "replace")), LONGEST_EXAMPLE)
    form = FORMS.get(physical)
    if form is None or len(data) != struct.calcsize(form) or word not in ("int", "float", "date", "timestamp"):
        return None
    number = struct.unpack(form, data)[0]
    if word == "date":
        try:
            return time.strftime("%Y-%m-%d", time.gmtime(number * 86400))
        except (ValueError, OverflowError, OSError):
            return None
    return None if word == "timestamp" else number


def describe_parquet(about, file, size, clock, sketched):
    about["format"] = "Parquet"
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if size < 12 or end[4:] != b"PAR1" or length > size - 12:
        raise Failure("is broken: it does not end as a Parquet file does")
    if length > 64 << 20:
        raise Failure(f"has a footer of {length:,} bytes, which is more than is read")
    file.seek(size - 8 - length)
    footer = Thrift(file.read(length)).structure()
    try:
        read_footer(about, footer)
    except (AttributeError, KeyError, TypeError, IndexError, ValueError):
        raise Failure("is broken: its footer is not one of a Parquet file") from None
    describe_parquet_values(about, file, clock, sketched)


def read_footer(about, footer):
    columns = {}
    stack = []
    for place, element in enumerate(footer[2]):
        while stack and stack[-1][1] == 0:
            stack.pop()
        if stack:
            stack[-1][1] -= 1
        name = element[4].decode("utf-8", "replace")
        path = (*(stack[-1][0] if stack else ()), name) if place else ()
        if element.get(5):
            stack.append([path, element[5]])
            continue
        word = CONVERTED.get(element.get(6), PHYSICAL.get(element.get(1), "binary"))
        logical = element.get(10) or {}
        for number, named in ((1, "string"), (5, "decimal"), (6, "date"), (7, "time"), (8, "timestamp")):
            if number in logical:
                word = named
        columns[path] = {"type": word, "physical": element.get(1), "repeated": element.get(3) == 2}
        if len(columns) > 10_000:
            break
    for group in footer.get(4, ()):
        for chunk in group.get(1, ()):
            meta = chunk.get(3) or {}
            column = columns.get(tuple(part.decode("utf-8", "replace") for part in meta.get(3, ())))
            statistics = meta.get(12)
            if column is None or statistics is None:
                continue
            if 3 in statistics:
                column["nulls"] = column.get("nulls", 0) + statistics[3]
            for key, numbers, choose in (("min", (6, 2), min), ("max", (5, 1), max)):
                data = next((statistics[number] for number in numbers if number in statistics), None)
                value = bound(data, column["physical"], column["type"])
                if value is not None:
                    column[key] = value if key not in column else choose(column[key], value)
    about["records"] = footer.get(3, 0)
    about["row_groups"] = len(footer.get(4, ()))
    fields = {}
    for path, column in itertools.islice(columns.items(), MOST_FIELDS):
        column.pop("physical")
        if not column.pop("repeated"):
            fields[clean(".".join(path))[:LONGEST_KEY]] = column
        else:
            fields[clean(".".join(path))[:LONGEST_KEY]] = {**column, "type": f"array of {column['type']}"}
    about["columns"] = fields
    if len(columns) > len(fields):
        about["notes"].append(f"{len(columns) - len(fields):,} more columns")
