"""What a program that knows only E2B's code interpreter is shown of figures and tables, where the image has matplotlib and
pandas. Run by e2b.rs, with E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL and TEMPLATE set."""

import base64
import os

from e2b_code_interpreter import Sandbox

# An emulated guest on a busy host takes its time, and more to import large packages.
PATIENCE = 480


def only(sandbox, code):
    ran = sandbox.run_code(code, timeout=PATIENCE, request_timeout=PATIENCE)
    assert ran.error is None and len(ran.results) == 1, ran
    return ran.results[0]


def figures(sandbox):
    drawn = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [3, 4, 8], label="rise")
plt.title("Growth"); plt.xlabel("time (s)"); plt.ylabel("size")
plt.show()
"""
    shown = only(sandbox, drawn)
    assert base64.b64decode(shown.png).startswith(b"\x89PNG\r\n"), shown.png[:40]
    assert shown.svg is None and shown.text.startswith("<Figure size "), shown.text
    chart = shown.chart
    assert (chart.type.value, chart.title) == ("line", "Growth"), chart
    assert (chart.x_label, chart.x_unit, chart.y_label, chart.y_unit) == ("time (s)", "s", "size", None), chart
    [line] = chart.elements
    assert (line.label, line.points) == ("rise", [(1.0, 3.0), (2.0, 4.0), (3.0, 8.0)]), line.points

    shown = only(sandbox, '%config InlineBackend.figure_formats = ["svg"]\nplt.bar(["a", "b"], [2, 5])\nplt.show()')
    assert "<svg" in shown.svg and shown.png is None, shown.svg[:200]
    assert shown.chart.type.value == "bar", shown.chart
    assert [(bar.label, float(bar.value)) for bar in shown.chart.elements] == [("a", 2.0), ("b", 5.0)], shown.chart
    print("figures")


def tables(sandbox):
    shown = only(sandbox, 'import pandas\npandas.DataFrame({"city": ["Oslo", "Rome"], "n": [1, 2]})')
    assert shown.is_main_result and "Oslo" in shown.text, shown
    assert "<table" in shown.html and "<td>Rome</td>" in shown.html, shown.html
    assert shown.data == {"city": ["Oslo", "Rome"], "n": [1, 2]}, shown.data
    print("tables")


def main():
    sandbox = Sandbox.create(template=os.environ["TEMPLATE"], timeout=3 * PATIENCE, request_timeout=PATIENCE)
    figures(sandbox)
    tables(sandbox)
    sandbox.kill()
    print("done")


main()
