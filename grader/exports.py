"""Scores out of the gradebook, for spreadsheets."""

import csv

from nbgrader.api import MissingEntry
from nbgrader.plugins import ExportPlugin

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


class SafeCsv(ExportPlugin):
    """nbgrader's table of scores, quoted, and with no cell that a spreadsheet would compute."""

    def export(self, gradebook):
        """Write the table to `--to`, by default grades.csv; who handed in nothing has 0."""
        with open(self.to or "grades.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(COLUMNS)
            for assignment in gradebook.assignments:
                for student in gradebook.students:
                    if self._is_wanted(assignment, student):
                        table.writerow(map(harmless, _row(gradebook, assignment, student)))

    def _is_wanted(self, assignment, student):
        assignments, students = map(str, self.assignment), map(str, self.student)
        return (not self.assignment or assignment.name in assignments) and (
            not self.student or student.id in students
        )


def harmless(cell):
    """The cell as a spreadsheet may have it: text that would be a formula begins with a quote.

    Source: OWASP, "CSV Injection".
    """
    if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return f"'{cell}"
    return "" if cell is None else cell


def _row(gradebook, assignment, student):
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        time, raw, penalty = None, 0.0, 0.0
    else:
        time, raw = submission.timestamp, submission.score
        penalty = submission.late_submission_penalty
    whose = (student.id, student.last_name, student.first_name, student.email)
    scores = (raw, penalty, max(0.0, raw - penalty), assignment.max_score)
    return (assignment.name, assignment.duedate, time, *whose, *scores)
