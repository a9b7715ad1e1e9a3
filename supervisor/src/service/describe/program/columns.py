

DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
SKETCH = 1024
SPREAD = 0x9E3779B97F4A7C15
MASK = (1 << 61) - 1


class Values:
    """What is known of the values at one place: a column, a key of objects, the elements of arrays.

    Values come in batches, and everything about a batch is done by functions that loop in C: that is what makes it
    fast enough for every value of a large file.
    """

    __slots__ = (
        "count", "nulls", "trues", "bools", "ints", "floats", "low", "high", "strings", "shortest", "longest",
        "characters", "distinct", "dates", "first", "last", "examples", "lists", "least", "most", "items", "objects",
        "fields", "others", "other_keys", "blobs", "sketch", "deeper",
    )

    def __init__(self, sketched=False):
        self.count = self.nulls = self.trues = self.bools = self.ints = self.floats = self.strings = 0
        self.lists = self.objects = self.blobs = self.other_keys = 0
        self.low = self.high = self.shortest = self.longest = self.first = self.last = None
        self.least = self.most = self.items = self.others = self.dates = None
        self.distinct = set()
        self.examples = []
        self.fields = {}
        self.deeper = False
        # Of arrays that do not fit into a window.
        self.characters = 0
        self.sketch = Sketch() if sketched else None

    def child(self):
        return Values(self.sketch is not None)

    def add(self, values, depth=0):
        if not values:
            return
        self.count += len(values)
        kinds = set(map(type, values))
        if len(kinds) == 1:
            self.add_kind(kinds.pop(), values, depth)
            return
        for kind in kinds:
            self.add_kind(kind, [value for value in values if type(value) is kind], depth)

    def add_kind(self, kind, values, depth):
        if kind is str:
            self.add_strings(values)
        elif kind is int or kind is float:
            self.add_numbers(kind, values)
        elif kind is dict:
            self.objects += len(values)
            self.add_objects(values, depth)
        elif kind is list:
            self.add_lists(values, depth)
        elif kind is bool:
            self.bools += len(values)
            self.trues += sum(values)
        elif kind is bytes:
            self.blobs += len(values)
            self.note_lengths(values)
        else:
            self.nulls += len(values)

    def add_numbers(self, kind, values):
        if kind is int:
            self.ints += len(values)
        else:
            self.floats += len(values)
        low, high = min(values), max(values)
        if low != low or high != high:
            # One that is not a number came first.
            numbers = [value for value in values if value == value]
            low, high = min(numbers, default=None), max(numbers, default=None)
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        self.note(values)

    def note_lengths(self, values):
        lengths = set(map(len, values))
        shortest, longest = min(lengths), max(lengths)
        self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        self.longest = longest if self.longest is None else max(self.longest, longest)
        return longest

    def add_strings(self, values):
        self.strings += len(values)
        longest = self.note_lengths(values)
        if longest > 4 * LONGEST_EXAMPLE:
            self.distinct = None
            values = [short(value, 4 * LONGEST_EXAMPLE) for value in itertools.islice(values, 100)]
        if self.dates is not False:
            step = max(len(values) // 20, 1)
            self.dates = all(map(DATE.fullmatch, values[::step]))
            if self.dates:
                some = set(values)
                first, last = min(some), max(some)
                self.first = first if self.first is None else min(self.first, first)
                self.last = last if self.last is None else max(self.last, last)
        self.note(values)

    def note(self, values):
        """Keeps some for show, and tells them apart as long as they are few."""
        if len(self.examples) < 5:
            for value in itertools.islice(values, 20):
                if value not in self.examples:
                    self.examples.append(value)
                if len(self.examples) == 5:
                    break
        if self.distinct is not None:
            self.distinct.update(values)
            if len(self.distinct) > MOST_DISTINCT:
                self.distinct = None
        if self.sketch is not None:
            self.sketch.add(values)

    def add_lists(self, lists, depth):
        self.end_lists(set(map(len, lists)), len(lists))
        if depth >= DEEPEST:
            self.deeper = True
            return
        self.elements().add(list(itertools.chain.from_iterable(lists)), depth + 1)

    def end_lists(self, lengths, count=1):
        """Counts arrays whose elements are counted elsewhere."""
        self.lists += count
        least, most = min(lengths), max(lengths)
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def elements(self):
        if self.items is None:
            self.items = self.child()
        return self.items

    def field(self, name):
        found = self.fields.get(name)
        if found is not None:
            return found
        name = name[:LONGEST_KEY]
        if name in self.fields or len(self.fields) < MOST_FIELDS:
            return self.fields.setdefault(name, self.child())
        self.other_keys += 1
        if self.others is None:
            self.others = self.child()
        return self.others

    def add_objects(self, objects, depth):
        if depth >= DEEPEST:
            self.deeper = True
            return
        if self.add_alike(objects, depth):
            return
        groups = {}
        for one in objects:
            groups.setdefault(tuple(one), []).append(one)
        if len(groups) <= 32 or len(groups) * 20 < len(objects):
            for group in groups.values():
                self.add_alike(group, depth)
            return
        columns = {}
        for one in objects:
            for name, value in one.items():
                columns.setdefault(name, []).append(value)
        self.add_columns(columns, depth)

    def add_alike(self, objects, depth):
        """Adds objects that all have the same keys; False where they have not."""
        names = tuple(objects[0])
        if len(set(map(len, objects))) != 1:
            return False
        if not names:
            return True
        if len(names) > MOST_FIELDS:
            for one in objects:
                self.add_columns({name: [value] for name, value in one.items()}, depth)
            return True
        rows = map(operator.itemgetter(*names), objects)
        try:
            columns = [list(rows)] if len(names) == 1 else zip(*rows)
        except KeyError:
            return False
        for name, column in zip(names, columns):
            self.field(name).add(column, depth + 1)
        return True

    def add_columns(self, columns, depth):
        """Adds values by key; those of keys that are too many to be told apart go together."""
        rest = []
        for name, column in columns.items():
            if name in self.fields or len(self.fields) < MOST_FIELDS:
                self.field(name).add(column, depth + 1)
            else:
                self.other_keys += 1
                rest.extend(column)
        if rest:
            if self.others is None:
                self.others = self.child()
            self.others.add(rest, depth + 1)

    def add_entries(self, entries, depth):
        """Adds a part of one object."""
        self.add_columns({name: [value] for name, value in entries.items()}, depth)


class Sketch:
    """The smallest hashes of values: how many there are about, and how many two columns have in common."""

    __slots__ = ("kept", "bound", "seen")

    def __init__(self):
        self.kept = set()
        self.bound = MASK
        self.seen = 0

    def add(self, values):
        self.seen += len(values)
        bound = self.bound
        hashes = [spread for spread in [hash(value) * SPREAD & MASK for value in set(values)] if spread <= bound]
        self.kept.update(hashes)
        if len(self.kept) > 2 * SKETCH:
            self.cut()

    def cut(self):
        if len(self.kept) > SKETCH:
            self.kept = set(sorted(self.kept)[:SKETCH])
            self.bound = max(self.kept)

    def distinct(self):
        self.cut()
        if len(self.kept) < SKETCH:
            return len(self.kept)
        return int((SKETCH - 1) * MASK / self.bound)

    def shared(self, other):
        """Which part of the smaller one's values the larger one has too."""
        self.cut()
        other.cut()
        bound = min(self.bound, other.bound)
        mine = {value for value in self.kept if value <= bound}
        theirs = {value for value in other.kept if value <= bound}
        least = min(len(mine), len(theirs))
        return (len(mine & theirs) / least if least else 0.0), least
