"""Right implementations of every exercise, one module a chapter.

They are written to be read: a chapter's functions may use those of earlier
chapters, and nothing but NumPy and torch.
"""
