

def describe_sqlite(about, path, clock, sketched):
    import sqlite3
    import urllib.parse

    about["format"] = "SQLite"
    tables = about["tables"] = []
    if os.path.exists(path + "-wal"):
        about["notes"].append("what is only in its write-ahead log is not counted")
    where = urllib.parse.quote(os.path.abspath(os.fsencode(path)))
    database = sqlite3.connect(f"file:{where}?mode=ro&immutable=1", uri=True)
    try:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        database.set_progress_handler(lambda: time.monotonic() > clock.end, 100_000)
        query = "select name, type from sqlite_master where type in ('table', 'view') order by rowid"
        names = [row for row in database.execute(query).fetchmany(1000) if not str(row[0]).startswith("sqlite_")]
        if len(names) > 50:
            about["notes"].append(f"only 50 of {len(names):,} tables are described")
        for name, kind in names[:50]:
            table = {"name": clean(str(name))[:LONGEST_KEY], "records": 0, "notes": []}
            tables.append(table)
            if kind == "view":
                table["notes"].append("a view")
                continue
            quoted = '"' + str(name).replace('"', '""') + '"'
            values = table["values"] = Values(sketched)
            for key in database.execute(f"pragma foreign_key_list({quoted})").fetchmany(20):
                table["notes"].append(clean(f"{key[3]} refers to {key[2]}.{key[4] or 'its key'}"))
            rows = database.execute(f"select * from {quoted}")
            # Names that occur twice would be one column.
            columns = Table(sketched)
            columns.values = values
            columns.name([str(column[0]) for column in rows.description])
            while True:
                batch = rows.fetchmany(max(20, 20_000 // max(len(columns.names), 1)))
                if not batch:
                    break
                columns.add(batch, texts=False)
                table["records"] = columns.rows
                clock.check()
    except sqlite3.Error as error:
        if time.monotonic() > clock.end:
            raise OutOfTime from None
        raise Failure(f"is broken: {clean(str(error))}") from None
    finally:
        database.close()


def tag(element):
    return element.tag.rpartition("}")[2]


CELL = re.compile(r"([A-Z]{1,3})\d*")


def column_number(place):
    found = CELL.match(place or "")
    if not found:
        return None
    number = 0
    for letter in found.group(1):
        number = number * 26 + ord(letter) - 64
    return number - 1


def describe_excel(about, archive, clock, sketched):
    from xml.etree import ElementTree

    about["format"] = "Excel"
    sheets = about["tables"] = []
    parts = {}
    for element in ElementTree.fromstring(part(archive, "xl/_rels/workbook.xml.rels")).iter():
        if element.get("Id"):
            target = element.get("Target", "").lstrip("/")
            parts[element.get("Id")] = target if target.startswith("xl/") else "xl/" + target
    shared, found = [], []
    if "xl/sharedStrings.xml" in archive.namelist():
        for text in stream(archive, "xl/sharedStrings.xml", "si", clock):
            shared.append("".join(piece.text or "" for piece in text.iter() if tag(piece) == "t")[:4 * LONGEST_EXAMPLE])
            if len(shared) >= 500_000:
                about["notes"].append("only the first 500,000 texts are told apart")
                break
    moments = Moments(archive)
    for element in ElementTree.fromstring(part(archive, "xl/workbook.xml")).iter():
        if tag(element) == "workbookPr" and element.get("date1904") in ("1", "true"):
            moments.first = "1904-01-01"
        if tag(element) == "sheet":
            link = next((value for name, value in element.items() if name.endswith("}id")), "")
            found.append((element.get("name", ""), parts.get(link, "")))
    for name, where in found[:50]:
        table = {"name": clean(name)[:LONGEST_KEY], "records": 0, "notes": []}
        sheets.append(table)
        if where in archive.namelist():
            describe_sheet(table, stream(archive, where, "row", clock), shared, moments, sketched)


class Moments:
    """Dates and times, which are numbers of days that a style shows as such."""

    def __init__(self, archive):
        from xml.etree import ElementTree

        self.first = "1899-12-30"
        self.styles = set()
        if "xl/styles.xml" not in archive.namelist():
            return
        own, within = {}, False
        for event, element in ElementTree.iterparse(io.BytesIO(part(archive, "xl/styles.xml")), ("start", "end")):
            if tag(element) == "cellXfs":
                within, place = event == "start", 0
            elif event == "start" and tag(element) == "numFmt":
                own[element.get("numFmtId")] = element.get("formatCode", "")
            elif event == "start" and within and tag(element) == "xf":
                form = element.get("numFmtId", "0")
                # What is in quotation marks, in brackets or behind a backslash stands for itself.
                shown = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", own.get(form, "")).lower()
                if form in OF_MOMENTS or form in own and set("dmyhs") & set(shown) and shown != "general":
                    self.styles.add(str(place))
                place += 1

    def read(self, value, style):
        import datetime

        if style not in self.styles or type(value) not in (int, float):
            return value
        try:
            moment = datetime.datetime.fromisoformat(self.first) + datetime.timedelta(seconds=round(value * 86400))
        except (OverflowError, ValueError):
            return value
        if 0 < value < 1:
            return moment.time().isoformat()
        return moment.date().isoformat() if type(value) is int or value.is_integer() else moment.isoformat(" ")


# Formats that every program for tables has.
OF_MOMENTS = frozenset(map(str, (*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59))))


def part(archive, name):
    """A small part of an archive."""
    with archive.open(name) as file:
        data = file.read((4 << 20) + 1)
    if len(data) > 4 << 20:
        raise Failure("is broken: its list of sheets is too large")
    return data


def stream(archive, name, wanted, clock):
    """Elements of a part, each forgotten when the next is read."""
    from xml.etree import ElementTree

    with archive.open(name) as file:
        parents, seen = [], 0
        for event, element in ElementTree.iterparse(file, ("start", "end")):
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if tag(element) == wanted:
                yield element
                if parents:
                    parents[-1].clear()
                seen += 1
                if seen % 1000 == 0:
                    clock.check()


def describe_sheet(table, rows, shared, moments, sketched):
    columns = Table(sketched)
    table["values"] = columns.values
    batch = []
    for row in rows:
        cells = []
        for cell in row:
            place = column_number(cell.get("r"))
            place = len(cells) if place is None else place
            if place >= MOST_FIELDS:
                continue
            cells.extend([None] * (place + 1 - len(cells)))
            cells[place] = cell_value(cell, shared, moments)
        if not columns.names:
            texts = [cell if type(cell) is str else "" for cell in cells]
            heading = bool(texts) and all(texts)
            columns.name(texts if heading else [""] * len(cells))
            if heading or not cells:
                continue
        width = len(columns.names)
        batch.append((cells + [None] * width)[:width])
        if len(batch) == 1000:
            columns.add(batch, texts=False)
            batch.clear()
    columns.add(batch, texts=False)
    table["records"] = columns.rows


def cell_value(cell, shared, moments):
    kind = cell.get("t")
    if kind == "inlineStr":
        return "".join(piece.text or "" for piece in cell.iter() if tag(piece) == "t")
    text = next((piece.text for piece in cell if tag(piece) == "v"), None)
    if text is None:
        return None
    if kind == "s":
        return shared[int(text)] if text.isdecimal() and int(text) < len(shared) else "…"
    if kind == "b":
        return text == "1"
    if kind in (None, "n"):
        return moments.read(number(text), cell.get("s"))
    return text


def describe_zip(about, path, clock, sketched):
    import zipfile

    try:
        with open_data(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if "xl/workbook.xml" in names:
                describe_excel(about, archive, clock, sketched)
                return
            about["format"] = "ZIP archive"
            about["notes"].append(f"{len(names):,} entries: " + short(clean(", ".join(names[:20])), 300))
    except (OutOfTime, Failure):
        raise
    except Exception as error:
        # Whatever a damaged archive, or the XML in it, makes of its readers.
        raise Failure(f"is broken: {short(clean(str(error)), 120)}") from None


def describe_directory(about, path, clock):
    """Counts what is below a directory; no link is followed. Returns the data files in it."""
    about["format"] = "directory"
    kinds, data, todo = {}, [], [path]
    entries = files = size = directories = links = 0
    about["extensions"] = kinds
    while todo and entries < MOST_ENTRIES:
        clock.check()
        try:
            scan = os.scandir(todo.pop())
        except OSError:
            about["unreadable"] = about.get("unreadable", 0) + 1
            continue
        with scan:
            for entry in scan:
                entries += 1
                if entries >= MOST_ENTRIES:
                    about["notes"].append(f"only the first {MOST_ENTRIES:,} entries are counted")
                    break
                try:
                    if entry.is_symlink():
                        links += 1
                    elif entry.is_dir():
                        directories += 1
                        todo.append(entry.path)
                    elif entry.is_file():
                        files += 1
                        bytes_ = entry.stat().st_size
                        size += bytes_
                        ending = os.path.splitext(entry.name)[1].lower()[:16]
                        count = kinds.setdefault(ending if len(kinds) < 200 or ending in kinds else "other", [0, 0])
                        count[0] += 1
                        count[1] += bytes_
                        if ending in DATA_ENDINGS:
                            data.append(entry.path)
                except OSError:
                    continue
    about["entries"], about["files"], about["bytes"] = entries, files, size
    about["directories"], about["links"] = directories, links
    return sorted(data)


DATA_ENDINGS = frozenset((".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".xlsx", ".sqlite", ".sqlite3",
                          ".db", ".geojson"))
