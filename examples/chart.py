"""A data job: a table goes in, a chart comes out."""

import sys

from client import connect

TABLE = b"month,sold\nJan,12\nFeb,19\nMar,7\nApr,23\n"

# With the template python-node this could be pandas and matplotlib; the standard library is in every template.
JOB = """
import csv

rows = [(row["month"], int(row["sold"])) for row in csv.DictReader(open("sales.csv"))]
bars = []
for at, (month, sold) in enumerate(rows):
    x, height = 10 + 40 * at, 4 * sold
    bars.append(f'<rect x="{x}" y="{110 - height}" width="30" height="{height}" fill="steelblue"/>')
    bars.append(f'<text x="{x}" y="125" font-size="12">{month}</text>')
with open("chart.svg", "w") as out:
    out.write('<svg xmlns="http://www.w3.org/2000/svg" width="180" height="130">' + "".join(bars) + "</svg>")
print(sum(sold for _, sold in rows), "sold in", len(rows), "months")
"""

client = connect()
sandbox = client.sandboxes.Create(client.new("CreateSandboxRequest")).id
try:
    client.upload(sandbox, "sales.csv", TABLE)
    request = client.new("ExecuteRequest", sandbox=sandbox, program=client.python(JOB))
    done = client.sandboxes.Execute(request)
    if done.outcome.WhichOneof("outcome") != "exit_code" or done.outcome.exit_code != 0:
        sys.exit(f"the job failed: {done.diagnosis.kind} {done.diagnosis.subject}\n{done.stderr.text}")
    print(done.stdout.text.strip())
    chart = client.download(sandbox, "chart.svg")
    with open("chart.svg", "wb") as out:
        out.write(chart)
    print("chart.svg has", chart.count(b"<rect"), "bars")
finally:
    client.sandboxes.Destroy(client.new("DestroySandboxRequest", sandbox=sandbox))
