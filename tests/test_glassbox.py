"""The glass box: right against NumPy, readable, and clear about input that it cannot use.

Runs by itself too: `python -m unittest tests.test_glassbox`.
"""

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from utils import glassbox

FILE = pathlib.Path(glassbox.__file__)


def in_numpy(q, k, v, scale=None, causal=True):
    """The same in matrices; empty rows give zeros."""
    q, k, v = (np.array(x, dtype=float) for x in (q, k, v))
    scores = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    mask = np.tri(*scores.shape, len(k) - len(q), dtype=bool) if causal else True
    e = np.where(mask, np.exp(scores - scores.max(axis=1, keepdims=True)), 0)
    weights = e / np.maximum(e.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return weights @ v, weights


def run(*arguments):
    """Exit code, output and errors of the command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = glassbox.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def rows(q, k, v):
    return [part for name, x in zip("qkv", (q, k, v), strict=True) for part in (f"--{name}", x)]


class Numbers(unittest.TestCase):
    def test_as_in_numpy(self):
        rng = np.random.default_rng(4)
        for T, S, d_k, d_v in (
            (1, 1, 1, 1),
            (3, 3, 2, 2),
            (7, 7, 4, 5),
            (2, 6, 3, 1),
            (6, 2, 1, 3),
        ):
            q, k, v = (rng.normal(size=s) for s in ((T, d_k), (S, d_k), (S, d_v)))
            for causal in (True, False):
                for scale in (None, 0.0, 3.0, -1):
                    with self.subTest(sizes=(T, S, d_k, d_v), causal=causal, scale=scale):
                        found = glassbox.attend(q.tolist(), k.tolist(), v.tolist(), scale, causal)
                        for x, wanted in zip(found, in_numpy(q, k, v, scale, causal), strict=True):
                            self.assertIsInstance(x, list)
                            np.testing.assert_allclose(x, wanted, rtol=1e-12, atol=1e-12)

    def test_the_worked_example(self):
        out, weights = glassbox.attend(**glassbox.EXAMPLE)
        np.testing.assert_allclose(weights[2], [0.248, 0.248, 0.503], atol=5e-4)
        np.testing.assert_allclose(out[2], [1.759, 1.0], atol=5e-4)
        self.assertEqual(weights[0], [1, 0, 0])

    def test_rows_without_a_key_are_zero(self):
        out, weights = glassbox.attend([[1]] * 3, [[1]], [[5]])
        self.assertEqual((out, weights), ([[0], [0], [5]], [[0], [0], [1]]))

    def test_large_scores_do_not_overflow(self):
        out, weights = glassbox.attend([[1e4]], [[1e4], [-1e4]], [[1], [2]], causal=False)
        self.assertEqual((out, weights), ([[1]], [[1, 0]]))

    def test_the_future_does_not_matter_however_large(self):
        q, v = [[1e200], [0]], [[1], [2]]
        out, _ = glassbox.attend(q, [[1], [1e200]], v)
        self.assertEqual(out, [[1], [1.5]])

    def test_nothing_given_is_changed(self):
        before = json.dumps(glassbox.EXAMPLE)
        glassbox.attend(**glassbox.EXAMPLE)
        self.assertEqual(json.dumps(glassbox.EXAMPLE), before)


class Steps(unittest.TestCase):
    def test_the_last_token_step_by_step(self):
        code, out, err = run("--row", "2")
        self.assertEqual((code, err), (0, ""))
        for line in (
            "Scale: 1 / sqrt(d_k) = 1 / sqrt(2) = 0.707",
            "q[2] . k[2] = 1 * 1 + 1 * 1 = 2.000",
            "key dot dot / sqrt(2) may read minus 1.414 exp exp / 1.986",
            "k[0] 1.000 0.707 yes -0.707 0.493 0.248",
            "k[2] 2.000 1.414 yes 0.000 1.000 0.503",
            "max 1.414",
            "sum 1.986 1.000",
            "out[2][0] = 0.248 * 1 + 0.248 * 0 + 0.503 * 3 = 1.759",
            "out[2][1] = 0.248 * 0 + 0.248 * 2 + 0.503 * 1 = 1.000",
        ):
            self.assertIn(line, [" ".join(found.split()) for found in out.splitlines()])
        self.assertNotIn("Query 1", out)

    def test_the_mask_is_shown(self):
        self.assertEqual(run()[1].count("no: later"), 3)
        self.assertEqual(run("--row", "0")[1].count("no: later"), 2)
        self.assertNotIn("no: later", run("--no-mask")[1])
        self.assertIn("Mask: none", run("--no-mask")[1])

    def test_what_is_printed_is_what_is_computed(self):
        rng = np.random.default_rng(5)
        q, k, v = (rng.normal(size=(4, 2)).round(2).tolist() for _ in "qkv")
        out, weights = glassbox.attend(q, k, v)
        text = run(*rows(*map(json.dumps, (q, k, v))))[1]
        printed = re.findall(r"k\[\d\] .* (\S+)$", text, re.M)
        printed = [x for line, x in enumerate(printed) if line % 8 >= 4]  # after the products
        np.testing.assert_allclose(np.array(printed, float), np.ravel(weights), atol=6e-4)
        printed = re.findall(r"out\[\d\]\[\d\] .* (\S+)$", text, re.M)
        np.testing.assert_allclose(np.array(printed, float), np.ravel(out), atol=6e-4)

    def test_other_lengths_are_aligned_to_the_end(self):
        _, out, _ = run(*rows("[[1], [2]]", "[[1], [0], [1]]", "[[1], [2], [3]]"))
        self.assertIn("aligned to the end", out)
        self.assertIn("j <= i + S - T = i + 1", out)
        self.assertEqual(out.count("no: later"), 1)
        _, out, _ = run(*rows("[[1], [2]]", "[[1]]", "[[1]]"))
        self.assertIn("= i - 1", out)
        self.assertIn("no key is left to read: weights 0 and output 0", out)

    def test_the_scale_can_be_chosen(self):
        for scale, head in (("0.5", "dot * 0.5"), ("0", "dot * 0"), ("-2", "dot * (-2)")):
            code, out, _ = run("--scale", scale)
            self.assertEqual(code, 0)
            self.assertIn(head, out)

    def test_columns_stay_aligned(self):
        cases = [
            glassbox.EXAMPLE.values(),
            ([[-1e-9, 123456789]], [[1, 2], [3.25, -4.5]], [[1], [-200]]),
            ([[0.001] * 9] * 12, [[-7e8] * 9] * 12, [[1e-30, 5]] * 12),
            ([[1]], [[1]], [[1]]),
        ]
        for case in cases:
            for table in re.findall(r"(?:^ {4}.*\n)+", run(*rows(*map(json.dumps, case)))[1], re.M):
                lines = table.splitlines()
                if " = " in lines[0] or "may read" not in lines[0]:
                    for sign in (" = ", " * "):
                        places = {
                            tuple(m.start() for m in re.finditer(re.escape(sign), x)) for x in lines
                        }
                        self.assertEqual(len(places), 1, table)
                    self.assertEqual(len(set(map(len, lines))), 1, table)
                else:
                    keys = [line for line in lines if not re.search(r" (max|sum)|no key", line)]
                    self.assertEqual(len({len(line) for line in (lines[0], *keys)}), 1, table)

    def test_only_ascii_so_that_any_terminal_shows_it(self):
        self.assertTrue(run()[1].isascii())


class BadInput(unittest.TestCase):
    def complaint(self, *arguments):
        code, out, err = run(*arguments)
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.endswith(".\n"), err)
        return err

    def test_vectors_that_do_not_fit(self):
        good = "[[1, 2], [3, 4]]"
        for vectors, words in (
            (("[[1, 2], [3]]", good, good), "q is ragged, row 1"),
            ((good, good, "[[1], [3, 4]]"), "v is ragged"),
            (("[[1], [3]]", good, good), "same width"),
            ((good, good, "[[1, 2]]"), "k has 2 rows and v has 1: give every key one value"),
            (("[]", good, good), "q is empty"),
            ((good, "[[], []]", good), "k is empty"),
            (("[1, 2]", good, good), "q is no list of lists"),
            (("5", good, good), "q is no list of lists"),
            (("null", good, good), "q is no list of lists"),
            (('[["1", 2]]', good, good), "q[0][0] is '1': put a finite number there"),
            (("[[1, true]]", good, good), "q[0][1] is True"),
            (("[[1, NaN]]", good, good), "q[0][1] is nan"),
            ((good, "[[1, 2], [-Infinity, 4]]", good), "k[1][0] is -inf"),
            (("[[1, 1" + 400 * "0" + "]]", good, good), "q[0][1] is 1000"),
            (("[[1, 1e200]]", "[[1, 1e200]]", "[[1]]"), "query 0 and key 0 is too large"),
            (("[[1, 2]", good, good), "--q is not JSON (line 1, column"),
            ((good, "", good), "--k is not JSON"),
            (("[" * 100_000, good, good), "--q is not JSON"),
        ):
            with self.subTest(words=words):
                self.assertIn(words, self.complaint(*rows(*vectors)))

    def test_options_that_make_no_sense(self):
        for arguments, words in (
            (("--q", "[[1]]"), "no k and no v"),
            (("--q", "[[1]]", "--file", "x.json"), "leave one of them out"),
            (("--scale", "big"), "--scale is 'big': give a number"),
            (("--scale", "nan"), "scale is nan"),
            (("--row", "3"), "--row is 3: give a row of q, from 0 to 2"),
            (("--row", "-1"), "from 0 to 2"),
            (("--row", "two"), "whole number"),
            (("--row",), "--row"),
            (("--mask",), "--mask"),
            (("spare",), "spare"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.complaint(*arguments))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "vectors.json")
            self.assertIn("cannot be read", self.complaint("--file", str(path)))
            self.assertIn("cannot be read", self.complaint("--file", folder))
            for text, words in (
                ("q = 1", "is not JSON (line 1"),
                ("[[1]]", "holds no JSON object"),
                ('{"q": [[1]], "v": [[1]]}', "has no k"),
                ('{"q": [[1]], "k": [[1]], "v": [[1]], "mask": []}', "'mask'"),
                ('{"q": [[1]], "k": [[1, 2]], "v": [[1]]}', "same width"),
            ):
                path.write_text(text)
                with self.subTest(text=text):
                    self.assertIn(words, self.complaint("--file", str(path)))
            path.write_bytes(b"\xff\xfe\x00")
            self.assertIn("no text in UTF-8", self.complaint("--file", str(path)))
            path.write_text(json.dumps(glassbox.EXAMPLE), encoding="utf-8-sig")
            self.assertEqual(run("--file", str(path)), run())

    def test_attend_raises_the_same_sentence(self):
        for q, scale in (([[1, 2], [3]], None), ([[float("nan")]], None), ([[1]], "big")):
            with self.assertRaises(ValueError):
                glassbox.attend(q, [[1]], [[1]], scale)


class ByItself(unittest.TestCase):
    """As a command, with nothing but the standard library."""

    def test_the_file_runs_without_installed_packages(self):
        done = subprocess.run(
            [sys.executable, "-S", "-I", FILE, "--row", "2"], capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), run("--row", "2"))

    def test_the_module_runs_and_loads_no_numpy(self):
        code = (
            "import runpy, sys; sys.argv = ['glassbox', '--scale', '1']\n"
            "try: runpy.run_module('utils.glassbox', run_name='__main__')\n"
            "except SystemExit as end: assert end.code == 0\n"
            "assert 'numpy' not in sys.modules"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=FILE.parent.parent, capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), run("--scale", "1"))

    def test_bad_input_is_exit_code_2_without_a_traceback(self):
        done = subprocess.run(
            [sys.executable, FILE, "--q", "[[1]]"], capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertNotIn("Traceback", done.stderr)

    def test_a_reader_may_stop_early(self):
        many = json.dumps([[1, 2]] * 60)
        command = [sys.executable, FILE, *rows(many, many, many)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")


if __name__ == "__main__":
    unittest.main()
