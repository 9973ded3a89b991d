"""Which goals are met: goals.py DIR prints those of all programs that wrote a JSON there, and writes them
to DIR/goals.txt."""
import json
import pathlib
import sys

import common


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = [(path.stem, row) for path in sorted(folder.glob("*.json"))
            for row in json.loads(path.read_text()).get("goals", [])]
    met = [row["met"] for _, row in rows]
    text = "\n".join(f"{program}: {common.told(row)}" for program, row in rows)
    (folder / "goals.txt").write_text(text + "\n")
    print(f"== goals: {met.count(True)} met, {met.count(False)} missed, {met.count(None)} not measured")
    for program, row in rows:
        if not row["met"]:
            print(f"  {program}: {common.told(row)}")


if __name__ == "__main__":
    main()
