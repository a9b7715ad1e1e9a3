"""Tests of the program that describes data with the libraries that `python-node` has for Parquet and Excel, on files that
others wrote. Run by the unit tests where these libraries are: `DESCRIBE_PROGRAM` names the program, `FIXTURES` the files."""

import os
import shutil
import unittest

from program_tests import Case, Loader

FIXTURES = os.environ["FIXTURES"]


class Real(Case):
    def setUp(self):
        super().setUp()
        for name in ("orders.parquet", "customers.parquet", "stock.xlsx"):
            shutil.copy(os.path.join(FIXTURES, name), name)


class Values(Real):
    def test_values_of_parquet_files_are_shown_and_belong_together(self):
        text, structure = self.ask("orders.parquet", "customers.parquet", "stock.xlsx")
        for words in (
            "  id: int 0..59, unique\n",
            "  city: string, 2 distinct: \"Oslo\", \"Rome\"\n",
            "  day: date 2024-01-01..2024-10-26, unique\n",
            "  at: date 2024-01-01 00:00:00Z..2024-01-01 00:00:59Z\n",
            "  price: float 0.25..74.75, unique, 3 null\n",
            "  total: float 0.0..2.99, unique\n",
            "  tags: array[0..2] of string, 2 distinct: \"new\", \"old\"\n",
            "    zip: int 1000..1008\n",
            "  kind: string, 3 distinct: \"a\", \"b\", \"c\"\n",
        ):
            self.assertIn(words, text)
        pairs = {(join["left"], join["right"]) for join in structure["joins"]}
        self.assertIn(("orders.parquet:customer_id", "customers.parquet:id"), pairs)
        self.assertIn(("orders.parquet:customer_id", "stock.xlsx:Stock:customer_id"), pairs)
        about = structure["files"][0]
        self.assertEqual(about["values"]["fields"]["place"]["fields"]["city"]["examples"], ["Rome", "Oslo"])
        self.assertEqual(about["columns"]["total"]["type"], "decimal")

    def test_what_nobody_has_looked_at_is_not_claimed(self):
        import pyarrow
        from pyarrow import parquet

        count = 25_000
        table = pyarrow.table({"n": range(count), "word": ["same"] * (count - 1) + ["other"], "x": [None, 1.5] * (count // 2)})
        parquet.write_table(table, "long.parquet")
        text, structure = self.ask("long.parquet")
        self.assertIn("its values are shown by the first 10,240 records", text)
        self.assertIn(f"  n: int 0..{count - 1}\n", text)
        self.assertIn("  word: string of 4, such as \"same\"\n", text)
        self.assertIn(f"  x: float 1.5, {count // 2:,} null", text)
        self.assertEqual(structure["files"][0]["records"], count)
        # Keys are compared by all of them.
        self.write("keys.csv", "n,y\n" + "".join(f"{n},1\n" for n in range(20_000, count)))
        text, structure = self.ask("long.parquet", "keys.csv")
        self.assertEqual([join["left"] for join in structure["joins"]], ["long.parquet:n"])
        self.assertIn("unique in", text)

    def test_a_damaged_file_is_told_by_its_footer(self):
        with open("orders.parquet", "r+b") as file:
            file.write(b"PAR1" + b"\xff" * 400)
        with open("orders.parquet", "rb") as file:
            _, about = self.one("orders.parquet", file.read())
        self.assertEqual((about["records"], about["columns"]["customer_id"]["max"]), (300, 59))
        self.assertTrue(any("cannot be read" in note for note in about["notes"]), about["notes"])


class Load(Real, Loader):
    def test_parquet_and_excel_load_in_one_line(self):
        self.ask(".", loader="load_data.py")
        out, _ = self.load("from load_data import orders, stock\n"
                           "print(orders.shape, orders.price.sum(), list(stock), stock['Stock'].shape)")
        self.assertIn("(300, 8) 11137.5 ['Stock', 'Notes'] (41, 5)", out)
        self.assertIn("orders: DataFrame, 300 long, from ", out)
        self.assertIn("  customer_id: int32, ", out)
        self.assertIn("  Stock: DataFrame, Notes: DataFrame\n", out)

    def test_parquet_and_excel_that_do_not_fit_are_iterators_and_loudly(self):
        self.ask(".", loader="load_data.py")
        out, err = self.load(
            "import load_data\nload_data.SHARE = 0\n"
            "from load_data import orders, stock\n"
            "import pandas\n"
            "whole = pandas.read_parquet('orders.parquet')\n"
            "assert [r['customer_id'] for r in orders] == list(whole.customer_id) and [r['total'] for r in orders] == list(whole.total)\n"
            "rows, frame = list(stock['Stock']), pandas.read_excel('stock.xlsx')\n"
            "assert list(rows[0]) == list(frame.columns), (rows[0], frame.columns)\n"
            "assert [r['sku'] for r in rows] == [None if s != s else s for s in frame.sku.astype(object)]\n"
            "print(len(orders.sample(10)), len(rows), len(list(stock['Stock'])), list(stock['Notes']))")
        self.assertIn("10 41 41 []", out)
        self.assertEqual(err.count("is NOT loaded"), 2)
        self.assertIn("  customer_id: int, day: date, ", out)
        self.assertIn("  Stock: Records, Notes: Records\n", out)
        self.assertIn("stock is NOT loaded: it is a dictionary of its sheets", err)
        self.assertIn("`for record in stock['Stock']`", err)

    def test_a_group_of_rows_is_never_held_as_a_whole(self):
        import pyarrow
        from pyarrow import parquet

        count = 3_000_000
        table = pyarrow.table({"n": range(count), "text": [f"text {n} of many" for n in range(count)]})
        parquet.write_table(table, "group.parquet", row_group_size=count, use_dictionary=False)
        del table
        self.ask("group.parquet", loader="load_data.py")
        out, err = self.load(
            "import resource, load_data, pyarrow.parquet\nload_data.SHARE = 0\n"
            "from load_data import group\n"
            "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
            "before = peak()\nassert sum(1 for _ in group) == 3_000_000\nprint('took', peak() - before)")
        self.assertLess(int(out.rpartition("took ")[2]), 60, "MiB, of about 120 in the file")

    def test_without_the_libraries_it_says_what_is_missing(self):
        self.ask(".", loader="load_data.py")
        hide = "import importlib.util as u\nfind = u.find_spec\nu.find_spec = lambda name: None if name in %r else find(name)\n"
        for missing, name, share in ((("pyarrow", "fastparquet"), "orders", 1), (("pyarrow",), "orders", 0), (("openpyxl",), "stock", 0)):
            out, _ = self.load(hide % (missing,) + f"import load_data\nload_data.SHARE = {share}\n"
                               f"try: load_data.load({name!r})\nexcept ImportError as error: print(error)")
            self.assertIn(f"{missing[0]} is needed to read ", out)


# The tests of the base are its own.
del Loader, Case

if __name__ == "__main__":
    unittest.main()
