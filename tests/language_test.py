"""Texts use the field's words, and documents are readable: no private term, no endless sentence or line."""
import pathlib
import re
import statistics
import subprocess
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]
PRIVATE = {  # private term: the field's
    r"\brooms\b": "module, library",
    r"the decision it hands? out|\bhanded out\b|asked again": "deployed, exported; re-evaluated",
    r"lead of a clear answer|leads of a clear answer": "standardised logit margin",
    r"\bplain logits\b": "unadjusted logits",
    r"\bplain loss\b": "base loss",
    r"controllers? that rests?|the controller rests": "conditional integration",
    r"probe that forgets": "decay of the auxiliary head",
    r"\bteach(?:es)?\b|\bteachers?\b|\btaught\b": "training loss of the backbone",
    r"\brows of length\b": "weight norm",
    r"\bcollected (?:gradients?|positive|negative)\b": "accumulated gradient",
    r"\bmemory of (?:a|the|each|every) client\b|\bclient's memory\b": "persistent client state",
    r"\bclient rules?\b|\bserver rules?\b": "client algorithm, server optimiser",
    r"\bcrews?\b": "slot batch",
    r"\bdealt\b|\bdeals? to\b": "scheduled, partitioned",
    r"\bhands? in\b": "send",
    r"\branks? (?:exchange|add up)\b": "collective call, all-gather, all-reduce",
    r"\bevery place\b": "every client, site or server",
    r"\btakes? back\b|\btaken back\b": "roll back",
    r"answers? with what is not a number": "predictions contain NaN",
    r"\b(?:sure|right) by \.": "mean confidence, accuracy",
    r"\bby heart\b|\btrained to the end\b": "overfitted, converged",
    r"warn_of_what_suits_badly": "warn_unsupported_setup",
}
TEXTS = (".md", ".cpp", ".h", ".cu", ".cuh", ".py", ".ts", ".html", ".css", ".toml", ".sh", ".cmake", ".txt")
LONGEST_LINE = 400
MEDIAN_SENTENCE = 20


def tracked():
    listed = subprocess.run(["git", "-C", TREE, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode:
        raise unittest.SkipTest("not a git checkout")
    files = [TREE / name for name in listed.stdout.split("\0") if name.endswith(TEXTS)]
    return [file for file in files if file.is_file() and file != pathlib.Path(__file__).resolve()]


def prose(text):
    """Sentences of a page, without code, tables, headings and links' addresses."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    text = re.sub(r"(?m)^(?:    .*|\|.*|#.*|\s*[-*] .*\|.*)$", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [s for s in re.split(r"(?<=[.!?:;])\s+", " ".join(text.split())) if len(s.split()) > 2]


class Language(unittest.TestCase):
    def test_words_of_the_field(self):
        found = []
        for file in tracked():
            for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                for private, ours in PRIVATE.items():
                    if hit := re.search(private, line, re.IGNORECASE):
                        found.append(f"{file.relative_to(TREE)}:{number}: \"{hit[0]}\" (say: {ours})")
        self.assertEqual([], found)

    def test_sites_and_server(self):
        """Flower connects clients or sites with a server."""
        found = []
        for file in tracked():
            if file.is_relative_to(TREE / "flower") or file in (TREE / "docs" / "flower.md", TREE / "python" / "fedgrab" / "client.py"):
                lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
                found += [f"{file.relative_to(TREE)}:{number}: {line.strip()}" for number, line in lines
                          if re.search(r"\b(?:this|a|each|another|every) place\b|\bthe centre\b", line)]
        self.assertEqual([], found)

    def test_lines_of_documents(self):
        found = []
        for file in tracked():
            if file.suffix == ".md":
                lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
                found += [f"{file.relative_to(TREE)}:{number}: {len(line)} characters" for number, line in lines
                          if len(line) > LONGEST_LINE and not line.lstrip().startswith("|")]
        self.assertEqual([], found)

    def test_numbers_of_documents(self):
        found = []
        for file in tracked():
            if file.suffix == ".md":
                text = re.sub(r"(?ms)^```.*?^```|^    .*?$|`[^`\n]*`|\]\([^)]*\)", "", file.read_text(encoding="utf-8"))
                found += [f"{file.relative_to(TREE)}: {hit[0]} has no leading zero" for hit in re.finditer(r"(?<![\w./\])}*])\.\d+\b", text)]
        self.assertEqual([], found)

    def test_sentences_of_documents(self):
        pages = [file for file in tracked() if file.suffix == ".md"]
        lengths = {page.relative_to(TREE): [len(s.split()) for s in prose(page.read_text(encoding="utf-8"))] for page in pages}
        found = [f"{page}: median sentence {statistics.median(words):g} words" for page, words in lengths.items()
                 if words and statistics.median(words) > MEDIAN_SENTENCE]
        self.assertEqual([], found)


if __name__ == "__main__":
    unittest.main()
