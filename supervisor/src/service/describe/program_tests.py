"""What the program that describes data says of data, and of what is none. Run by the tests beside it."""

import ast
import base64
import gzip
import json
import os
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

PROGRAM = os.environ["DESCRIBE_PROGRAM"]
MEMORY = 512 << 20


def bound():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Case(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        os.chdir(self.place.name)
        self.addCleanup(os.chdir, "/")

    def write(self, name, content):
        with open(name, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return name

    def ask(self, *paths, max_chars=4000, seconds=60, loader=None):
        encode = lambda path: base64.b64encode(os.fsencode(path)).decode()
        request = {"paths": [encode(path) for path in paths], "max_chars": max_chars, "seconds": seconds,
                   "loader": loader and encode(loader)}
        run = subprocess.run([sys.executable, PROGRAM], input=json.dumps(request).encode(), capture_output=True,
                             preexec_fn=bound, timeout=300)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        answer = json.loads(run.stdout)
        self.assertLessEqual(len(answer["text"]), max_chars)
        structure = json.dumps(answer["structure"], ensure_ascii=False)
        self.assertLessEqual(len(structure.encode()), 55_000)
        self.assertLess(len(run.stdout.decode()), 100_000)
        return answer["text"], answer["structure"]

    def one(self, name, content, **options):
        text, structure = self.ask(self.write(name, content), **options)
        return text, structure["files"][0]


class Parts(unittest.TestCase):
    def test_no_part_takes_a_name_of_another(self):
        with open(PROGRAM) as file:
            parsed = ast.parse(file.read())
        names = [one.name for one in parsed.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
        names += [target.id for one in parsed.body if isinstance(one, ast.Assign) for target in one.targets]
        self.assertEqual(sorted(names), sorted(set(names)))


class Json(Case):
    RECORDS = [
        {"id": n, "name": f"n{n}", "tags": ["a", "b"][: n % 3], "on": n % 2 == 0,
         "u": {"city": ["Oslo", "Rome"][n % 2], "age": n % 90 if n % 7 else None}}
        for n in range(3000)
    ]

    def check(self, fields, whole=True):
        self.assertEqual(fields["id"]["types"], {"int": 3000})
        self.assertEqual((fields["id"]["min"], fields["id"]["max"]), (0, 2999))
        self.assertEqual((fields["name"]["min_length"], fields["name"]["max_length"]), (2, 5))
        self.assertEqual((fields["tags"]["min_items"], fields["tags"]["max_items"]), (0, 2))
        self.assertEqual(fields["tags"]["items"]["distinct"], 2)
        self.assertEqual((fields["on"]["true"], fields["on"]["count"]), (1500, 3000))
        self.assertEqual(fields["u"]["fields"]["age"]["nulls"], 429)
        self.assertEqual(fields["u"]["fields"]["city"]["distinct"], 2)

    def test_an_array_of_records_is_described_whole_whatever_its_spaces(self):
        for name, style in (("a", {}), ("b", {"indent": 2}), ("c", {"separators": (",", ":")})):
            text, about = self.one(f"{name}.json", json.dumps(self.RECORDS, **style))
            self.assertEqual((about["format"], about["records"]), ("JSON", 3000))
            self.check(about["values"]["items"]["fields"])
            self.assertIn('city: string, 2 distinct: "Oslo", "Rome"', text)

    def test_lines_of_json_and_those_that_are_none(self):
        lines = [json.dumps(record) for record in self.RECORDS]
        text, about = self.one("a.jsonl", "\n".join(lines) + "\n")
        self.assertEqual((about["format"], about["records"]), ("JSON Lines", 3000))
        self.check(about["values"]["fields"])
        lines[10:10] = ["", "{broken", "1, 2"]
        text, about = self.one("b.json", "\r\n".join(lines))
        self.assertEqual((about["records"], about["broken_lines"]), (3000, 2))
        self.check(about["values"]["fields"])
        self.assertIn("line 12", text)

    def test_a_large_array_below_keys_and_larger_values_than_the_window(self):
        many = [{"k": n, "v": "}, {" * (n % 3), "w": [{"x": 1}, {"x": n}]} for n in range(60_000)]
        document = {"meta": {"v": 1}, "data": {"rows": many, "long": "ä\\\"" * 2_000_000}, "end": [[1, 2], []]}
        text, about = self.one("a.json", json.dumps(document, ensure_ascii=False))
        self.assertNotIn("error", about)
        fields = about["values"]["fields"]
        rows = fields["data"]["fields"]["rows"]
        self.assertEqual((rows["max_items"], rows["items"]["count"]), (60_000, 60_000))
        self.assertEqual(rows["items"]["fields"]["k"]["max"], 59_999)
        self.assertEqual(rows["items"]["fields"]["w"]["items"]["fields"]["x"]["count"], 120_000)
        self.assertEqual(fields["data"]["fields"]["long"]["max_length"], 6_000_000)
        self.assertEqual(fields["end"]["items"]["max_items"], 2)

    def test_an_object_with_as_many_keys_as_records_is_a_map(self):
        text, about = self.one("a.json", json.dumps({f"key {n}": {"a": n, "b": "x"} for n in range(100_000)}))
        self.assertNotIn("error", about)
        self.assertEqual(about["values"]["others"]["fields"]["a"]["max"], 99_999)
        self.assertLess(len(text), 600)

    def test_plain_numbers_and_mixed_types(self):
        text, about = self.one("a.json", json.dumps(list(range(1_000_000))))
        self.assertEqual((about["records"], about["values"]["items"]["max"]), (1_000_000, 999_999))
        text, about = self.one("b.json", '[1, 2.5, null, "x", true, [], {}, {"a": 1}, NaN, 1e999, -5]')
        self.assertEqual(about["values"]["items"]["types"],
                         {"int": 2, "float": 3, "string": 1, "bool": 1, "array": 1, "object": 2})
        self.assertIn("mixed: ", text)
        text, about = self.one("c.json", '{"a": 1} {"a": "x"}{"a": null} [2]')
        self.assertEqual(about["values"]["fields"]["a"]["count"], 3)

    def test_broken_ones_are_described_to_where_they_break(self):
        whole = json.dumps(self.RECORDS)
        for name, content in (("cut", whole[:-1]), ("within", whole[:100_000]), ("comma", whole.replace('}, {"id": 2900', '} {"id": 2900')),
                              ("word", whole.replace('"id": 2900', '"id": nope'))):
            text, about = self.one(f"{name}.json", content)
            self.assertIn("is broken at character", about["error"], name)
            self.assertIn("ERROR: it is broken", text)
            self.assertGreater(about["values"]["items"]["fields"]["id"]["count"], 500, name)
        for content in ("[", "{", '{"a"', '{"a":', '["x', "[1,", "[1,]", "{]", "[}", '{"a":1,}', '["\\', "[" + "9" * 5000 + "]", "nope", "]"):
            text, about = self.one("d.json", content)
            self.assertTrue(about.get("error"), content)

    def test_deep_nesting(self):
        text, about = self.one("a.json", "[" * 50 + "1" + "]" * 50)
        self.assertNotIn("error", about)
        for depth in (500, 100_000):
            text, about = self.one("b.json", "[" * depth + "]" * depth)
            self.assertTrue(about.get("error") or about["values"]["count"], depth)
            text, about = self.one("c.json", '{"a":' * depth + "1" + "}" * depth)
            self.assertTrue(about.get("error") or about["values"]["count"], depth)

    def test_a_string_of_100_mb_fits_into_the_memory(self):
        with open("a.json", "w") as file:
            file.write('[{"a": "')
            for _ in range(100):
                file.write("x" * 1_000_000)
            file.write('"}, {"a": "short"}]')
        text, structure = self.ask("a.json")
        self.assertEqual(structure["files"][0]["values"]["items"]["fields"]["a"]["max_length"], 100_000_000)
        with open("b.jsonl", "w") as file:
            file.write('{"a": 1}\n{"a": "' + "x" * 40_000_000 + '"}\n{"a": 3}\n')
        text, structure = self.ask("b.jsonl")
        self.assertEqual((structure["files"][0]["records"], structure["files"][0]["long_lines"]), (2, 1))

    def test_a_file_that_takes_too_long_is_described_by_its_beginning(self):
        line = json.dumps({"a": list(range(100))})
        self.write("a.jsonl", "\n".join([line] * 150_000))
        text, structure = self.ask("a.jsonl", seconds=0.1)
        self.assertTrue(structure["files"][0]["partial"])
        self.assertIn("INCOMPLETE", text)
        self.assertGreater(structure["files"][0]["records"], 0)


class Tables(Case):
    def test_csv_with_names_types_nulls_and_uneven_lines(self):
        rows = "".join(f'{n},{n / 4},"a ""{n % 3}"", b",2024-01-{n % 28 + 1:02},{"" if n % 5 else n}\n' for n in range(30_000))
        text, about = self.one("a.csv", "id,price,name,day,rare\n" + rows + "1,2\n")
        self.assertEqual((about["format"], about["records"]), ("CSV", 30_001))
        fields = about["values"]["fields"]
        self.assertEqual((fields["id"]["min"], fields["id"]["max"]), (0, 29_999))
        self.assertEqual(fields["rare"]["nulls"], 24_001)
        self.assertEqual(fields["name"]["distinct"], 3)
        self.assertIn("day: date 2024-01-01..2024-01-28", text)
        self.assertIn("1 record with another number of fields", text)

    def test_other_separators_no_names_and_an_open_quote(self):
        _, about = self.one("a.txt", "".join(f"{n};{n * 2};x\n" for n in range(100)))
        self.assertEqual((about["records"], about["delimiter"], len(about["values"]["fields"])), (100, ";", 3))
        _, about = self.one("b.tsv", "a\tb\n1\t2\n")
        self.assertEqual((about["format"], about["records"]), ("TSV", 1))
        text, about = self.one("c.csv", 'a,b\n1,"' + "x,\n" * 8_000_000)
        self.assertIn("quote", about["error"])

    def test_sqlite(self):
        with sqlite3.connect("a.db") as database:
            database.execute('create table "odd ""name" (id integer primary key, n text, b blob)')
            database.executemany('insert into "odd ""name" values (?, ?, ?)', [(n, f"x{n}", b"12") for n in range(5000)])
            database.execute("create table child (parent integer references \"odd \"\"name\" (id))")
        database.close()
        text, structure = self.ask("a.db")
        tables = structure["files"][0]["tables"]
        self.assertEqual((tables[0]["name"], tables[0]["records"]), ('odd "name', 5000))
        self.assertEqual(tables[0]["values"]["fields"]["id"]["max"], 4999)
        self.assertIn("parent refers to", text)
        _, about = self.one("b.db", b"SQLite format 3\0" + b"\xff" * 5000)
        self.assertTrue(about["error"])

    def test_excel(self):
        cell = lambda place, row: f'<c r="{place}{row}" t="inlineStr"><is><t>{place}</t></is></c>'
        rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="C{n}" t="s"><v>0</v></c></row>' for n in range(2, 3002))
        with zipfile.ZipFile("a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/workbook.xml", '<workbook xmlns:r="u"><sheets><sheet name="S" r:id="r1"/></sheets></workbook>')
            archive.writestr("xl/_rels/workbook.xml.rels", '<R><Relationship Id="r1" Target="worksheets/s.xml"/></R>')
            archive.writestr("xl/sharedStrings.xml", "<sst><si><t>shared</t></si></sst>")
            head = '<row r="1">' + cell("A", 1) + cell("B", 1) + cell("C", 1) + "</row>"
            archive.writestr("xl/worksheets/s.xml", f"<worksheet><sheetData>{head}{rows}</sheetData></worksheet>")
        text, structure = self.ask("a.xlsx")
        table = structure["files"][0]["tables"][0]
        self.assertEqual((table["name"], table["records"]), ("S", 3000))
        self.assertEqual(table["values"]["fields"]["A"]["max"], 3001)
        self.assertEqual(table["values"]["fields"]["B"]["nulls"], 3000)
        self.assertEqual(table["values"]["fields"]["C"]["examples"], ["shared"])
        with open("a.xlsx", "rb") as file:
            content = file.read()
        _, about = self.one("b.xlsx", content[: len(content) // 2])
        self.assertTrue(about["error"])

    def test_parquet_is_told_from_its_footer(self):
        def field(gap, kind, data):
            return bytes([gap << 4 | kind]) + data

        number = lambda n: bytes([n << 1]) if n < 64 else bytes([(n << 1) & 127 | 128, (n << 1) >> 7])
        text = lambda s: bytes([len(s)]) + s
        root = field(4, 8, text(b"schema")) + field(1, 5, number(1)) + b"\0"
        leaf = field(1, 5, number(2)) + field(3, 8, text(b"id")) + b"\0"
        least, most = struct.pack("<q", -3), struct.pack("<q", 99)
        statistics = field(3, 6, number(7)) + field(2, 8, text(most)) + field(1, 8, text(least)) + b"\0"
        meta = field(3, 9, bytes([1 << 4 | 8]) + text(b"id")) + field(9, 12, statistics) + b"\0"
        group = field(1, 9, bytes([1 << 4 | 12]) + field(3, 12, meta) + b"\0") + b"\0"
        footer = (field(2, 9, bytes([2 << 4 | 12]) + root + leaf) + field(1, 6, number(1000))
                  + field(1, 9, bytes([1 << 4 | 12]) + group) + b"\0")
        content = b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
        said, about = self.one("a.parquet", content)
        self.assertEqual((about["format"], about["records"]), ("Parquet", 1000))
        self.assertEqual(about["columns"], {"id": {"type": "int", "nulls": 7, "min": -3, "max": 99}})
        for place in range(0, len(footer), 5):
            broken = footer[:place] + b"\xff" + footer[place + 1:]
            self.one("b.parquet", b"PAR1" + broken + struct.pack("<I", len(footer)) + b"PAR1")
        _, about = self.one("c.parquet", content[:-3])
        self.assertTrue(about["error"])

    def test_files_of_real_writers(self):
        for name in ("orders.parquet", "customers.parquet", "stock.xlsx"):
            shutil.copy(os.path.join(os.environ["FIXTURES"], name), name)
        # Without the library that looks at values, wherever these tests run.
        os.mkdir("pyarrow")
        self.write("pyarrow/__init__.py", "raise ImportError")
        with mock.patch.dict(os.environ, {"PYTHONPATH": os.getcwd()}):
            text, structure = self.ask("orders.parquet", "customers.parquet", "stock.xlsx")
        orders, customers, stock = structure["files"]
        self.assertEqual((orders["records"], orders["row_groups"], customers["records"]), (300, 3, 60))
        self.assertEqual(orders["columns"]["customer_id"], {"type": "int", "nulls": 0, "min": 0, "max": 59})
        self.assertEqual(orders["columns"]["price"], {"type": "float", "nulls": 3, "min": 0.25, "max": 74.75})
        self.assertEqual(orders["columns"]["day"]["max"], "2024-10-26")
        self.assertEqual(customers["columns"]["city"], {"type": "string", "nulls": 0, "min": "Oslo", "max": "Rome"})
        self.assertIn("only its footer was read", text)
        fields = stock["tables"][0]["values"]["fields"]
        self.assertEqual([table["name"] for table in stock["tables"]], ["Stock", "Notes"])
        self.assertEqual((fields["customer_id"]["max"], fields["count"]["nulls"], fields["sku"]["unique"]), (39, 5, True))
        self.assertEqual((fields["since"]["first"], fields["since"]["last"]), ("2024-02-01", "2024-03-11"))

    def test_columns_that_belong_together_are_found(self):
        self.write("customers.csv", "id,mail\n" + "".join(f"{n},m{n}@x.org\n" for n in range(20_000)))
        self.write("orders.jsonl", "".join(json.dumps({"customer_id": n * 7919 % 20_000, "mail": f"m{n % 500}@x.org"}) + "\n" for n in range(30_000)))
        text, structure = self.ask("customers.csv", "orders.jsonl")
        pairs = {(join["left"], join["right"]) for join in structure["joins"]}
        self.assertEqual(pairs, {("customers.csv:id", "orders.jsonl:customer_id"), ("customers.csv:mail", "orders.jsonl:mail")})
        self.assertIn("may belong together", text)

    def test_a_column_without_repetitions_is_told_as_that_whatever_its_values_hash_to(self):
        names = [f"c{n}" for n in range(30)]
        rows = "".join(",".join(f"{name}-{row}" for name in names) + "\n" for row in range(5000))
        self.write("a.csv", ",".join(names) + "\n" + rows)
        # Columns are counted where there is another file to hold them against.
        self.write("b.csv", "id,x\n1,2\n3,4\n")
        for seed in "123":
            with mock.patch.dict(os.environ, {"PYTHONHASHSEED": seed}):
                fields = self.ask("a.csv", "b.csv")[1]["files"][0]["values"]["fields"]
            self.assertEqual([name for name in names if not fields[name].get("unique")], [], seed)

    def test_columns_of_records_in_arrays_below_keys_are_compared_and_a_wide_file_leaves_the_others_theirs(self):
        self.write("customers.csv", "id,mail\n" + "".join(f"{n},m{n}@x.org\n" for n in range(5000)))
        wide = {f"w{n}": {f"x{m}": m for m in range(30)} for n in range(30)}
        rows = [{"customer_id": n * 7919 % 5000, "to": [{"mail": f"m{n % 500}@x.org"}], **(wide if n < 2 else {})} for n in range(6000)]
        self.write("orders.json", json.dumps({"version": 1, "rows": rows}))
        for paths in (("customers.csv", "orders.json"), ("orders.json", "customers.csv")):
            _, structure = self.ask(*paths)
            pairs = {frozenset((join["left"], join["right"])) for join in structure["joins"]}
            self.assertEqual(pairs, {frozenset(("customers.csv:id", "orders.json:rows[].customer_id")),
                                     frozenset(("customers.csv:mail", "orders.json:rows[].to[].mail"))})


class Odd(Case):
    def test_what_is_empty_binary_or_no_text(self):
        for name, content, form in (("a", b"", "empty file"), ("b.json", b" \n\t ", "white space only"),
                                    ("c", bytes(range(256)) * 100, "binary"), ("d.json", b"\0" * 5000, "binary")):
            _, about = self.one(name, content)
            self.assertEqual(about["format"], form)
        text, about = self.one("e.json", b'{"a": "\xff\xfe ok"}')
        self.assertEqual(about["values"]["fields"]["a"]["count"], 1)
        self.assertIn("replaced", text)
        _, about = self.one("f.json", '[{"ä": 1}]'.encode("utf-16"))
        self.assertEqual(about["records"], 1)
        text, about = self.one("g.txt", "Some prose, with a comma.\nAnother line\n")
        self.assertEqual((about["format"], about["lines"]), ("text", 2))

    def test_packed_files_and_bombs(self):
        self.write("a.json.gz", gzip.compress(json.dumps([1, 2, 3]).encode()))
        _, structure = self.ask("a.json.gz")
        self.assertEqual((structure["files"][0]["format"], structure["files"][0]["records"]), ("JSON", 3))
        self.write("b.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 500_000 + b'"' + b"x" * 100_000_000))
        self.ask("b.csv.gz", seconds=20)
        _, about = self.one("c.gz", gzip.compress(b"[1, 2" * 1000)[:-20])
        self.assertTrue(about["error"])

    def test_pipes_devices_and_what_is_not_there(self):
        os.mkfifo("pipe")
        os.symlink("loop", "loop")
        for path, word in (("pipe", "a pipe"), ("/dev/zero", "a device"), ("loop", ""), ("missing", "No such file")):
            _, structure = self.ask(path, seconds=10)
            self.assertIn(word, structure["files"][0]["error"])

    def test_a_directory_is_counted_and_its_data_described(self):
        os.makedirs("d/sub")
        os.symlink("..", "d/sub/up")
        self.write("d/a.csv", "id,x\n1,2\n")
        for n in range(20_000):
            os.close(os.open(f"d/sub/{n}.txt", os.O_CREAT))
        text, structure = self.ask("d")
        about = structure["files"][0]
        self.assertEqual((about["files"], about["directories"], about["links"]), (20_001, 1, 1))
        self.assertEqual(about["extensions"][".txt"]["files"], 20_000)
        self.assertEqual(structure["files"][1]["records"], 1)

    def test_names_and_values_cannot_move_a_cursor(self):
        name = b"a\x1b[2J\xff\n.json"
        with open(name, "wb") as file:
            file.write(b'[{"\\u001b[1m\\u202e": "\\u001b]0;x\\u0007", "\\ud800": "\\udfff"}]')
        text, structure = self.ask(name)
        for said in (text, json.dumps(structure, ensure_ascii=False)):
            self.assertTrue(all(c.isprintable() or c == "\n" for c in said), said)

    def test_the_text_keeps_its_bound_however_much_there_is(self):
        wide = [{f"key {n} {'x' * 100}": {"a": ["y" * 200]} for n in range(300)} for _ in range(20)]
        self.write("a.json", json.dumps(wide))
        self.write("b.csv", ",".join(f"c{n}" for n in range(5000)) + "\n" + ",".join("1" * 5000) + "\n")
        for limit in (200, 1000, 20_000):
            text, _ = self.ask("a.json", "b.csv", "a.json", max_chars=limit)
            self.assertGreater(len(text), 100)


class Loader(Case):
    def load(self, code, **env):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout, run.stderr

    def test_every_dataset_has_a_name_and_loads_in_one_line(self):
        self.write("sales 2024.csv", "id,price\n1,2.5\n2,3.5\n")
        self.write("json.json", "[1, 2, 3]")
        self.write("class.jsonl", '{"a": 1}\n{"a": 2}\n')
        self.write("1.json", '{"x": 5}')
        self.write("bare.csv", "1;2\n3;4\n")
        with sqlite3.connect("base.db") as database:
            database.execute("create table t (x)")
        database.close()
        self.ask(".", loader="load_data.py")
        out, _ = self.load("from load_data import sales_2024 as s, data_json, data_class, data_1, bare, base\n"
                           "print(len(s), data_json, data_class, data_1, len(bare), base.execute('select * from t').fetchall())")
        self.assertIn("2 [1, 2, 3] [{'a': 1}, {'a': 2}] {'x': 5} 2 []", out)
        self.assertIn("data_json: list, 3 long, from ", out)
        out, _ = self.load("import runpy; runpy.run_path('load_data.py', run_name='__main__')")
        self.assertIn("sales_2024: CSV, 2 records", out)
        out, _ = self.load("try:\n    from load_data import nope\nexcept ImportError: print('refused')")
        self.assertIn("refused", out)

    def test_what_does_not_fit_comes_as_an_iterator_and_loudly(self):
        self.write("a.json", json.dumps([{"n": n, "s": "x" * (n % 50)} for n in range(50_000)]))
        self.write("b.csv", "n,s\n" + "".join(f"{n},x\n" for n in range(1000)))
        self.write("c.jsonl", '{"n": 1}\n' * 1000)
        self.write("d.json", json.dumps({"one": "x" * 2_000_000}))
        self.ask("a.json", "b.csv", "c.jsonl", "d.json", loader="load_data.py")
        out, err = self.load(
            "import load_data\nload_data.SHARE = 0\nload_data.LONGEST = 1 << 20\n"
            "from load_data import a, b, c, d\n"
            "print([sum(1 for _ in x) for x in (a, b, c, a)], len(a.sample(10)), next(iter(b)))\n"
            "try: list(d)\nexcept MemoryError as error: print(error)")
        self.assertIn("[50000, 1000, 1000, 50000] 10 {'n': '0', 's': 'x'}", out)
        self.assertIn("one record is longer", out)
        self.assertEqual(err.count("is NOT loaded"), 4)

    def records(self, name, content, code="", share=0):
        """What a program prints of a file: the data, and what is said on both outputs."""
        self.write(name, content)
        self.ask(name, loader="load_data.py")
        return self.load(f"import load_data as l, json\nl.SHARE = {share}\nname, = l.DATASETS\ndata = l.load(name)\n"
                         f"{code or 'print(json.dumps(list(data)))'}")

    def test_records_of_an_array_below_keys_come_one_by_one_where_the_document_does_not_fit(self):
        rows = [{"id": n, "text": "]}" * (n % 5)} for n in range(30_000)]
        before = {"long": "\u00e4\\\"]" * 300_000, "list": [[n, [n]] for n in range(60_000)], "none": [], "at": {"rows": [1]}}
        keys = ['a"b', "c.d", "\u20ac \U0001f600", "\\\n\ud800", ""]
        nested = rows
        for key in reversed(keys):
            nested = {"": {key: []}, key: nested} if key else {key: nested}
        for name, document, packed in (
            ("meta.json", {"meta": {"n": 1}, "rows": rows, "end": [1]}, False),
            ("before.json", {**before, "rows": rows * 3}, False), ("before.json.gz", {**before, "rows": rows * 3}, True),
            ("nested.json", nested, False), ("arrays.json", {"rows": [[row["id"], []] for row in rows]}, False),
        ):
            text = json.dumps(document, ensure_ascii=name == "nested.json").encode()
            out, err = self.records(name, gzip.compress(text) if packed else text)
            expected = document.get("rows", rows)
            # Not `assertEqual`, which would look for what differs for hours.
            self.assertTrue(json.loads(out.splitlines()[-1]) == expected, name)
            self.assertIn("is NOT loaded: it is an iterator over ", err)
            if "rows" in document:
                self.assertIn(f"rows[], about {len(expected):,}, read while", out)
        out, _ = self.records("two.json", json.dumps({"a": rows, "b": {"c": rows[:9]}}),
                              "print(json.dumps([len(list(data)), *data.below('b', 'c')]))\nl.listed()\n"
                              "try: list(data.below('b'))\nexcept LookupError as error: print(error)")
        self.assertIn(json.dumps([len(rows), *rows[:9]]), out)
        self.assertIn("two: JSON, 30,000 records in a[], at most ", out)
        self.assertIn("OVER BUDGET: comes as an iterator over a[]: ", out)
        self.assertIn("there is no array b[]", out)

    def test_a_number_is_whole_wherever_a_read_ends(self):
        for inside in range(1, 6):
            out, _ = self.records("a.json", "[" + " " * ((1 << 20) - 1 - inside) + "25e+1, 3]")
            self.assertEqual(json.loads(out.splitlines()[-1]), [250.0, 3], inside)

    def test_what_is_no_array_of_records_stays_a_document_and_a_broken_one_ends_where_it_breaks(self):
        for document in ({}, {"rows": []}, {"a": {"b": 1}, "tags": ["x"], "c": 1, "d": 2}):
            out, _ = self.records("a.json", json.dumps(document))
            self.assertEqual(json.loads(out.splitlines()[-1]), [document])
        text = '{"n": 1, "rows": [' + ", ".join('{"id": 1}' for _ in range(200)) + "]}"
        for end in (text[:-20], text[:-2] + "}}", text[:-2] + ", nope]}"):
            out, err = self.records("b.json", end, "print(len(list(data)))")
            self.assertIn(int(out.split()[-1]), (198, 200))
            self.assertIn("broken after this record", err)
        out, _ = self.records("c.json", "[1, 2]\n[3]")
        self.assertEqual(json.loads(out.splitlines()[-1]), [[1, 2], [3]])

    def test_no_record_takes_more_than_the_memory_that_may_be_used(self):
        count = "l.free_memory = lambda: 32 << 20\ntry: print(sum(1 for _ in data))\nexcept MemoryError as error: print(error)"
        for name, form in (("a.json", '{"rows": [{"a": "%s"}]}'), ("b.jsonl", '{"a": "%s"}\n{"a": 1}\n')):
            out, _ = self.records(name, form % ("x" * 4_000_000), "l.SHARE = 0.5\n" + count)
            self.assertIn("one record is longer than 2,097,152 characters", out, name)
            out, _ = self.records(name, form % ("x" * 4_000_000), "l.SHARE = 2\n" + count)
            self.assertEqual(out.split()[-1], str(form.count('"a"')), name)

    def test_columns_are_named_with_their_types_when_a_dataset_is_loaded(self):
        wide = {f"k{n}": n for n in range(12)}
        for share, name, content, said in (
            (1, "a.json", '[{"id": 1, "unit price": null}, {"id": "x", "unit price": 2.5}, 3]', "  id: int or str, 'unit price': None or float\n"),
            (1, "b.json", '{"meta": {}, "rows": [1]}', "b: dict, 2 long, from "),
            (1, "b.json", '{"meta": {}, "rows": [1]}', "  meta: dict, rows: list\n"),
            (1, "c.jsonl", json.dumps(wide) + "\n{}\n", "k8: int, k9: int, and 2 more\n"),
            (0, "c.jsonl", json.dumps(wide) + "\n{}\n", "k8: int, k9: int, and 2 more\n"),
            (0, "d.csv", "n,s\n1,x\n", "  n: str, s: str\n"),
            (0, "e.json", '{"rows": [{"x\\u001b[2J' + "y" * 90 + '": true}]}', "  'x\\x1b[2J" + "y" * 54 + "…': bool\n"),
        ):
            out, _ = self.records(name, content, "pass", share)
            self.assertIn(said, out)
        for content in ("[]", "[1, 2]", "{}"):
            out, _ = self.records("f.json", content, "pass", 1)
            self.assertEqual(out.count("\n"), 1, out)
        with sqlite3.connect("g.db") as database:
            database.execute("create table t (x)")
        database.close()
        self.ask("g.db", loader="load_data.py")
        self.assertIn("  t: table\n", self.load("from load_data import g")[0])

    def test_a_place_that_cannot_be_written_is_an_error(self):
        self.write("a.json", "[1]")
        encode = lambda text: base64.b64encode(text.encode()).decode()
        request = {"paths": [encode("a.json")], "max_chars": 200, "seconds": 9, "loader": encode("no/such/place.py")}
        run = subprocess.run([sys.executable, PROGRAM], input=json.dumps(request).encode(), capture_output=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(b"the loader cannot be written", run.stderr)


if __name__ == "__main__":
    unittest.main()
