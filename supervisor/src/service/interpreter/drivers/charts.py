# The data of a chart that matplotlib draws, in the form that E2B's clients read. Part of the program in python.py.


def chart_of(figure):
    axes = [each for each in figure.get_axes()]
    if not axes or not any(each.has_data() for each in axes):
        return {}
    charts = [chart_of_axes(each) for each in axes]
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "get_suptitle", lambda: None)() or None
    return {"type": "superchart", "title": title, "elements": charts}


def is_straight(line):
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == 2 and len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def kind_of_axes(axes):
    import matplotlib as mpl

    text, lines, patches = mpl.text.Text, mpl.lines.Line2D, mpl.patches
    drawn = [each for each in axes.get_children() if each in axes._children and not isinstance(each, text)]
    all_are = lambda kinds, of: all(isinstance(each, kinds) for each in of)
    if all_are(lines, drawn):
        return "line"
    if all_are((patches.PathPatch, lines), drawn):
        return "box_and_whisker"
    drawn = [each for each in drawn if not (isinstance(each, lines) and is_straight(each))]
    if all_are(mpl.collections.PathCollection, drawn):
        return "scatter"
    if all_are(patches.Wedge, drawn):
        return "pie"
    if all_are(patches.Rectangle, drawn):
        return "bar"
    return "unknown"


def chart_of_axes(axes):
    kind = kind_of_axes(axes)
    chart = {"type": kind, "title": axes.get_title() or None, "elements": []}
    if kind in ("pie", "unknown"):
        if kind == "pie":
            chart["elements"] = [
                {"label": each.get_label(), "angle": rounded(abs(each.theta2 - each.theta1)), "radius": float(each.r)}
                for each in axes.patches
            ]
        return chart
    for name, label in (("x", axes.get_xlabel() or None), ("y", axes.get_ylabel() or None)):
        unit = re.search(r"\s\((.*?)\)|\[(.*?)\]", label or "")
        chart[f"{name}_label"] = label
        chart[f"{name}_unit"] = unit and (unit[1] or unit[2])
    if kind in ("line", "scatter"):
        add_points(axes, kind, chart)
    elif kind == "bar":
        add_bars(axes, chart)
    else:
        add_boxes(axes, chart)
    return chart


def rounded(number):
    return float(f"{float(number):.9g}")


def turned(chart):
    for what in ("label", "unit"):
        chart[f"x_{what}"], chart[f"y_{what}"] = chart[f"y_{what}"], chart[f"x_{what}"]


def point(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    return value if isinstance(value, str) else float(value)


def add_points(axes, kind, chart):
    for name in "xy":
        axis = getattr(axes, f"{name}axis")
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        ticks = list(axis.get_ticklocs())
        labels = [label.get_text() for label in axis.get_ticklabels()]
        scale = axis.get_scale()
        if "Date" in type(converter).__name__:
            import matplotlib.dates as dates

            scale, ticks = "datetime", [dates.num2date(tick).isoformat() for tick in ticks]
        else:
            ticks = [float(tick) for tick in ticks]
            counted = all(tick == n and str(n) != label for n, (tick, label) in enumerate(zip(ticks, labels)))
            if scale == "linear" and counted:
                scale = "categorical"
        chart.update({f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale})
    if kind == "scatter":
        for each in axes.collections:
            points = [[float(x), float(y)] for x, y in each.get_offsets()]
            chart["elements"].append({"label": each.get_label(), "points": points})
        return
    for line in axes.get_lines():
        if is_straight(line):
            continue
        label = re.sub(r"^_child(\d+)$", r"Line \1", str(line.get_label()))
        points = [[point(x), point(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]
        chart["elements"].append({"label": label, "points": points})


def add_bars(axes, chart):
    lying = False
    for container in axes.containers:
        group = re.sub(r"^_container(\d+)$", r"Group \1", str(container.get_label()))
        heights = [bar.get_height() for bar in container]
        lying = all(height == heights[0] for height in heights)
        labels = axes.get_yticklabels() if lying else axes.get_xticklabels()
        values = [bar.get_width() for bar in container] if lying else heights
        for label, value in zip(labels, values):
            chart["elements"].append({"label": label.get_text(), "group": group, "value": float(value)})
    if lying:
        turned(chart)


def add_boxes(axes, chart):
    labels = [label.get_text() for label in axes.get_xticklabels()]
    boxes = []
    for label, patch in zip(labels, axes.patches):
        spans = [sorted(rounded(value) for value in patch.get_path().vertices[:, side]) for side in (0, 1)]
        (left, right), (low, high) = (spans[0][0], spans[0][-1]), (spans[1][0], spans[1][-1])
        boxes.append({"span": (left, right), "range": (low, high), "label": label, "outliers": []})
    lying = bool(boxes) and all(box["range"] == boxes[0]["range"] for box in boxes[1:]) and len(boxes) > 1
    if lying:
        turned(chart)
        for box in boxes:
            box["span"], box["range"] = box["range"], box["span"]
    for line in axes.lines:
        across, along = [[rounded(value) for value in data] for data in (line.get_xdata(), line.get_ydata())]
        if lying:
            across, along = along, across
        for box in boxes:
            low, high = box["range"]
            if not across or not all(box["span"][0] <= value <= box["span"][1] for value in across):
                continue
            if len(across) != 2:
                box["outliers"].extend(along)
            elif along[0] == along[1] and low <= along[0] <= high:
                box["median"] = along[0]
            elif max(along) == low:
                box["min"] = min(along)
            elif min(along) == high:
                box["max"] = max(along)
    for box in boxes:
        low, high = box["range"]
        chart["elements"].append(
            {
                "label": box["label"],
                "min": box.get("min", low),
                "first_quartile": low,
                "median": box.get("median", low),
                "third_quartile": high,
                "max": box.get("max", high),
                "outliers": box["outliers"],
            }
        )


