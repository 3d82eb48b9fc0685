"""Tables parsed from Markdown, so that tests compare cells and not punctuation."""

Row = dict[str, str]  # column: cell


def rows(text: str) -> list[Row]:
    """The rows of all tables of a text, in order.

    >>> rows("| name | score |\\n|---|---|\\n| **a** | 1 |\\n| `b` | |")
    [{'name': 'a', 'score': '1'}, {'name': 'b', 'score': ''}]
    """
    parsed: list[Row] = []
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *`") for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif set("".join(cells)) - {"-"}:
            parsed.append(dict(zip(header, cells, strict=True)))
    return parsed


def find_rows(text: str, name: str) -> list[Row]:
    """The rows of all tables whose first cell is ``name``."""
    return [row for row in rows(text) if next(iter(row.values())) == name]


def find_row(text: str, name: str, column: str) -> Row:
    """The one row whose first cell is ``name``, in the tables that have ``column``."""
    (row,) = [row for row in find_rows(text, name) if column in row]
    return row
