

SCAN = json.JSONDecoder().scan_once
SPACE = re.compile(r"[ \t\r\n]*")
NEXT = re.compile(r"[ \t\r\n]*([,\]}])[ \t\r\n]*")
KEY = re.compile(r"\{[ \t\r\n]*\"[^\"\\]{0,100}\"")
PLAIN = re.compile(r"[^\"\\]+")
BROKEN = (ValueError, RecursionError, StopIteration)


def loads(text):
    """Parses a text whole, as fast as there is a module for it."""
    if orjson is not None:
        try:
            return orjson.loads(text)
        except ValueError:
            # It takes less than Python does, such as no NaN.
            pass
    return json.loads(text)


def skip_space(text):
    while True:
        text.at = SPACE.match(text.held, text.at).end()
        if text.at < len(text.held) or not text.more():
            return text.held[text.at:text.at + 1]


def broken(text, what):
    return Failure(f"is broken at {text.where()}: {what}")


def json_value(text, values, depth):
    """One value, whole if it fits into a window, otherwise by what it consists of."""
    first = skip_space(text)
    if not first:
        raise broken(text, "it ends where a value should be")
    text.fill()
    try:
        value, end = SCAN(text.held, text.at)
    except BROKEN:
        pass
    else:
        # A number that ends with the window may go on.
        if end < len(text.held) or text.over:
            text.at = end
            values.add((value,), depth)
            return
    if depth >= DEEPEST:
        raise broken(text, f"it is nested more than {DEEPEST} levels")
    if first == "[":
        json_array(text, values, depth)
    elif first == "{":
        json_object(text, values, depth)
    elif first == '"':
        json_string(text, values)
    else:
        raise broken(text, f"{clean(repr(short(text.held[text.at:text.at + 20], 20)))} is no value")


def json_string(text, values):
    """A string of any length: its beginning is kept, the rest is counted."""
    text.at += 1
    kept, length, escaped = [], 0, False
    while True:
        if text.at >= len(text.held) and not text.more():
            raise broken(text, "it ends within a string")
        held, at = text.held, text.at
        if escaped:
            text.at, escaped, length = at + 1, False, length + 1
            continue
        plain = PLAIN.match(held, at)
        if plain:
            if length < LONGEST_EXAMPLE:
                kept.append(held[at:min(plain.end(), at + LONGEST_EXAMPLE)])
            length += plain.end() - at
            text.at = plain.end()
        elif held[at] == '"':
            text.at = at + 1
            break
        else:
            text.at, escaped = at + 1, True
    values.count += 1
    values.strings += 1
    values.shortest = length if values.shortest is None else min(values.shortest, length)
    values.longest = length if values.longest is None else max(values.longest, length)
    values.distinct, values.dates = None, False
    if len(values.examples) < 5:
        values.examples.append("".join(kept)[:LONGEST_EXAMPLE] + "…")


def json_array(text, values, depth):
    values.count += 1
    items, length, start = values.elements(), 0, text.passed + text.at
    text.at += 1
    if skip_space(text) == "]":
        text.at += 1
        values.end_lists([0])
        return
    try:
        more = True
        while more:
            text.fill()
            batch, more = elements(text)
            if batch:
                length += len(batch)
                items.add(batch, depth + 1)
            elif more:
                json_value(text, items, depth + 1)
                length += 1
                more = separated(text, "]")
    finally:
        values.end_lists([length])
        values.characters += text.passed + text.at - start


def json_object(text, values, depth):
    values.count += 1
    values.objects += 1
    text.at += 1
    if skip_space(text) == "}":
        text.at += 1
        return
    more = True
    while more:
        text.fill()
        batch, more = entries(text)
        if batch:
            values.add_entries(batch, depth)
        elif more:
            name = key(text)
            json_value(text, values.field(name), depth + 1)
            more = separated(text, "}")


def key(text):
    if skip_space(text) != '"':
        raise broken(text, "a key should be here")
    text.fill()
    try:
        name, text.at = SCAN(text.held, text.at)
    except BROKEN:
        raise broken(text, "a key does not end") from None
    if skip_space(text) != ":":
        raise broken(text, "a colon should be here")
    text.at += 1
    return name


def separated(text, end):
    """Passes what follows an element. False when that is the end."""
    found = skip_space(text)
    if found != "," and found != end:
        what = "it ends too early" if not found else f"a comma or {end} should be here"
        raise broken(text, what)
    text.at += 1
    return found == ","


def last_alike(held, at, end):
    """Where the last place is that looks like the border after the first element, which ends at `end`."""
    border = NEXT.match(held, end)
    if not border or border.group(1) != ",":
        return -1
    following = KEY.match(held, border.end())
    stop = following.end() if following else border.end() + (held[border.end():border.end() + 1] == '"')
    found = held.rfind(held[end - 1:stop], at)
    return found + 1 if found >= end - 1 else -1


def elements(text):
    """Elements of an array that are wholly in the window, and whether more may follow. None, and more, means that the
    next is larger than the window, or broken."""
    held, at = text.held, text.at
    try:
        _, end = SCAN(held, SPACE.match(held, at).end())
    except BROKEN:
        return [], True
    cut = last_alike(held, at, end)
    if cut > 0:
        # Parsed in one go. A border that belongs to something nested leaves brackets open, and is no JSON.
        try:
            batch = loads("[" + held[at:cut] + "]")
        except BROKEN:
            pass
        else:
            text.at = NEXT.match(held, cut).end()
            return batch, True
    batch = []
    while True:
        try:
            value, end = SCAN(held, SPACE.match(held, at).end())
        except BROKEN:
            break
        border = NEXT.match(held, end)
        if not border or border.group(1) == "}":
            break
        batch.append(value)
        at = border.end() if border.group(1) == "," else border.start(1) + 1
        if border.group(1) == "]":
            text.at = at
            return batch, False
    text.at = at
    return batch, True


def entries(text):
    """As `elements`, of an object."""
    held, at = text.held, text.at
    batch = {}
    first = True
    while True:
        try:
            name, end = SCAN(held, SPACE.match(held, at).end())
            colon = SPACE.match(held, end).end()
            if type(name) is not str or held[colon:colon + 1] != ":":
                break
            value, end = SCAN(held, SPACE.match(held, colon + 1).end())
        except BROKEN:
            break
        if first:
            first = False
            cut = last_alike(held, at, end)
            if cut > 0:
                try:
                    batch = loads("{" + held[at:cut] + "}")
                except BROKEN:
                    pass
                else:
                    text.at = NEXT.match(held, cut).end()
                    return batch, True
        border = NEXT.match(held, end)
        if not border or border.group(1) == "]":
            break
        batch[name] = value
        at = border.end() if border.group(1) == "," else border.start(1) + 1
        if border.group(1) == "}":
            text.at = at
            return batch, False
    text.at = at
    return batch, True


def describe_json(about, text, values):
    """A document, or several one after the other."""
    about["format"] = "JSON"
    documents = 0
    about["values"] = values
    if not skip_space(text):
        raise Failure("has nothing in it but white space")
    try:
        while skip_space(text):
            json_value(text, values, 0)
            documents += 1
            if documents == 2:
                about["format"] = "JSON, several documents"
    finally:
        records = record_values(values)
        about["records"] = records.count if records is not values else documents


def blocks(text, about):
    """Whole lines, many at a time."""
    while True:
        text.fill()
        if text.at >= len(text.held):
            return
        cut = text.held.rfind("\n", text.at) + 1
        while not cut and not text.over:
            if len(text.held) - text.at > LONGEST_LINE:
                about["long_lines"] = about.get("long_lines", 0) + 1
                pass_line(text)
                break
            text.more()
            cut = text.held.find("\n", text.at) + 1
        else:
            cut = cut or len(text.held)
            block = text.held[text.at:cut]
            text.at = cut
            yield block


def pass_line(text):
    while True:
        found = text.held.find("\n", text.at)
        if found >= 0:
            text.at = found + 1
            return
        text.at = len(text.held)
        if not text.more():
            return


def describe_json_lines(about, text, values):
    about["format"] = "JSON Lines"
    about["values"] = values
    about["records"] = number = bad = 0
    worst = ""
    for block in blocks(text, about):
        lines = block.strip()
        count = lines.count("\n") + 1
        try:
            batch = loads("[" + lines.replace("\n", ",") + "]")
            if len(batch) != count:
                raise ValueError("not one value a line")
        except BROKEN:
            batch = []
            for place, line in enumerate(block.split("\n")):
                if not line.strip():
                    continue
                try:
                    batch.append(loads(line))
                except BROKEN as error:
                    bad += 1
                    worst = worst or f"line {number + place + 1:,}: {short(clean(str(error) or 'no value'), 80)}"
        # Mostly counted before.
        number += count if len(block) == len(lines) + 1 and block.endswith("\n") else block.count("\n")
        values.add(batch)
        about["records"] += len(batch)
        if bad:
            about["broken_lines"] = bad
            about["first_broken"] = worst
    if not about["records"] and bad:
        raise Failure(f"has no line that is JSON; {worst}")
