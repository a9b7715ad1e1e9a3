

PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}


def describe_file(path, clock, sketched):
    """What is known of one file. What goes wrong is a part of it."""
    about = {"path": os.fsdecode(path), "notes": []}
    source = None
    try:
        with open_data(path) as file:
            source = Counted(file)
            about["bytes"] = os.fstat(file.fileno()).st_size
            describe_content(about, path, source, clock, sketched)
    except Failure as failure:
        about["error"] = str(failure)
    except OutOfTime:
        about["partial"] = True
    except RecursionError:
        about["error"] = "is nested too deep"
    except MemoryError:
        about["error"] = "does not fit into the memory that there is"
    about["read_bytes"] = about.pop("unpacked").bytes if "unpacked" in about else source.bytes if source else 0
    return about


def describe_content(about, path, source, clock, sketched):
    file = source.file
    head = source.read(512)
    file.seek(0)
    source.bytes = 0
    if not head:
        about["format"] = "empty file"
        return
    if head.startswith(b"PAR1"):
        describe_parquet(about, file, about["bytes"], clock, sketched)
        return
    if head.startswith(b"SQLite format 3\0"):
        describe_sqlite(about, os.fsdecode(path), clock, sketched)
        return
    if head.startswith(b"PK\x03\x04"):
        describe_zip(about, path, clock, sketched)
        return
    name = about["path"]
    for mark, module in PACKED.items():
        if head.startswith(mark):
            about["packed"] = module
            about["notes"].append(f"packed with {module}")
            source = about["unpacked"] = Counted(__import__(module).open(file, "rb"))
            name = os.path.splitext(name)[0]
    text = Text(source, clock)
    try:
        describe_characters(about, name, text, sketched)
    finally:
        if text.invalid:
            about["notes"].append(f"some bytes are no {text.encoding}, and were replaced")
        elif text.encoding == "utf-16":
            about["notes"].append("written in UTF-16")


def describe_characters(about, name, text, sketched):
    head = text.held[:WINDOW]
    odd = sum(1 for c in head[:4096] if not c.isprintable() and c not in "\r\n\t\f" or c == "\ufffd")
    if "\0" in head or odd * 4 > len(head[:4096]):
        about["format"] = "binary"
        first = head[:16].encode("utf-8", "replace").hex(" ")
        about["notes"].append(f"no format that is known here; begins with {first}")
        return
    start = head.lstrip(" \t\r\n")
    lower = name.lower()
    lines = lower.endswith((".jsonl", ".ndjson"))
    if not start:
        about["format"] = "white space only"
    elif lines or start[0] in "{[" and has_lines(start):
        describe_json_lines(about, text, Values(sketched))
    elif start[0] in "{[" or lower.endswith((".json", ".geojson")):
        describe_json(about, text, Values(sketched))
    else:
        mark = delimiter(head[:65536], lower)
        if mark:
            describe_csv(about, text, mark, sketched)
        else:
            describe_text(about, text)


def has_lines(start):
    """Whether a value on the first line is followed by another on the next."""
    first, _, rest = start.partition("\n")
    try:
        SCAN(first, 0)
        if SPACE.match(first, SCAN(first, 0)[1]).end() != len(first):
            return False
    except BROKEN:
        return False
    return bool(rest.strip()) and rest.lstrip()[0] in "{["


def columns_of(files):
    """The columns that records of files may be joined by: name of the file, of the column, and its values. Those of
    elements of an array have its name with brackets."""
    found = []
    for about in files:
        sources = [(about["path"], about["values"])] if about.get("values") is not None else []
        for table in about.get("tables", ()):
            if table.get("values") is not None:
                sources.append((f"{about['path']}:{table['name']}", table["values"]))
        for where, values in sources:
            own = []
            found.append(own)
            todo = [("", record_values(values), 0)]
            while todo:
                prefix, values, depth = todo.pop(0)
                for name, child in itertools.islice(values.fields.items(), 40):
                    if child.objects and depth < 2:
                        todo.append((f"{prefix}{name}.", child, depth + 1))
                    if child.items is not None and child.items.objects and depth < 2:
                        todo.append((f"{prefix}{name}[].", child.items, depth + 1))
                    if child.sketch is not None and child.sketch.seen > 1 and (child.strings or child.ints):
                        own.append((where, prefix + name, child))
    # As many of each as there is room for: a wide file leaves the others theirs.
    most = max(map(len, found), default=0)
    while most > 1 and sum(min(len(own), most) for own in found) > MOST_COLUMNS:
        most -= 1
    return [column for own in found for column in own[:most]][:MOST_COLUMNS]


def related(one, other):
    """Whether two names of columns speak of the same."""
    one, other = (re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower()) for name in (one, other))
    return one == other or len(min(one, other, key=len)) > 1 and (one.endswith(other) or other.endswith(one))


def joins_of(files, clock):
    columns = columns_of(files)
    found = []
    for (where, name, one), (there, its, other) in itertools.combinations(columns, 2):
        if where == there or bool(one.ints) != bool(other.ints) or bool(one.strings) != bool(other.strings):
            continue
        # Numbers are alike by chance, so their names must be too.
        named = related(name, its)
        if one.ints and not named or one.dates or other.dates or not (is_unique(one) or is_unique(other)):
            continue
        share, least = one.sketch.shared(other.sketch)
        if share < 0.3 or least < 2 or not named and least < 8:
            continue
        keys = [place for place, values in ((where, one), (there, other)) if is_unique(values)]
        found.append((named, share, {
            "left": clean(f"{where}:{name}"), "right": clean(f"{there}:{its}"), "shared": round(share, 2),
            "unique_in": [clean(key) for key in keys],
        }))
        if time.monotonic() > clock.end:
            break
    found.sort(key=lambda item: item[:2], reverse=True)
    joins = [join for _, _, join in found[:8]]
    for join in joins:
        join["text"] = short(f"{join['left']} = {join['right']}: about {join['shared']:.0%} of the values in common, "
                             f"unique in {' and '.join(join['unique_in'])}", 300)
    return joins


def describe_all(paths, seconds):
    clock = Clock(seconds)
    single = len(paths) == 1 and not os.path.isdir(paths[0])
    files = []
    for place, path in enumerate(paths):
        share = clock.share(len(paths) - place)
        if not os.path.isdir(path):
            files.append(describe_file(path, share, not single))
            continue
        about = {"path": os.fsdecode(path), "notes": [], "read_bytes": 0}
        files.append(about)
        data = []
        try:
            data = describe_directory(about, os.fsdecode(path), share)
        except OutOfTime:
            about["partial"] = True
        if len(data) > MOST_FILES:
            about["notes"].append(f"{len(data) - MOST_FILES:,} more files with data are not described one by one")
        for number, name in enumerate(data[:MOST_FILES]):
            files.append(describe_file(name, share.share(len(data[:MOST_FILES]) - number), True))
    return files, joins_of(files, Clock(2)) if len(files) > 1 else []


def main():
    # Nothing here is in cycles, and looking for them takes longer than all the rest.
    gc.disable()
    request = json.load(sys.stdin)
    paths = [base64.b64decode(path) for path in request["paths"]]
    files, joins = describe_all(paths, request["seconds"])
    if request.get("loader"):
        write_loader(base64.b64decode(request["loader"]), files)
    answer = {
        "text": text_of(files, joins, request["max_chars"]),
        "structure": structure_of(files, joins, 55_000),
    }
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
