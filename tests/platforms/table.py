"""The table of docs/platforms.md: a row for each command, a column for each CPU. Each CPU's test writes its own column."""
import re

BEGIN = "<!-- The table is written by tests/platforms/platform_test.py --write. -->"
END = "<!-- End of the table. -->"
NOT_RUN = "not run"


def read_cells(text):
    """{(command, column title): cell}; the row "measured" has what each column was measured with."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in between(text).splitlines() if line.startswith("|")]
    if len(rows) < 2:
        return {}
    titles = rows[0][1:]
    return {(row[0], title): cell for row in rows[2:] for title, cell in zip(titles, row[1:], strict=True)}


def between(text):
    found = re.search(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", text, re.DOTALL)
    if found is None:
        raise ValueError(f"the text has no place for a table between {BEGIN} and {END}")
    return found[1]


def with_cells(text, cells, rows, titles):
    lines = ["| command | " + " | ".join(titles) + " |", "|---" * (1 + len(titles)) + "|"]
    lines += [f"| {row} | " + " | ".join(cells.get((row, title), NOT_RUN) for title in titles) + " |" for row in rows]
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2]


def in_a_cell(text):
    """One line without the table's own sign, and not longer than a reader takes in."""
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= 160 else line[:157] + "…"
