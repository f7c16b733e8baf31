"""The course's small data: sentences and weights that were designed, not learned."""

import numpy as np

ROBOT_WORDS = ("The", "robot", "carried", "the", "patient", "because", "it", "was", "tired")

# One row a word, one column a property: article, noun, subject, verb, conjunction, pronoun,
# auxiliary, adjective.
ROBOT_X = np.array(
    [
        [1, 0, 0, 0, 0, 0, 0, 0],  # The
        [0, 1, 1, 0, 0, 0, 0, 0],  # robot
        [0, 0, 0, 1, 0, 0, 0, 0],  # carried
        [1, 0, 0, 0, 0, 0, 0, 0],  # the
        [0, 1, 0, 0, 0, 0, 0, 0],  # patient
        [0, 0, 0, 0, 1, 0, 0, 0],  # because
        [0, 0, 0, 0, 0, 1, 0, 0],  # it
        [0, 0, 0, 0, 0, 0, 1, 0],  # was
        [0, 0, 0, 0, 0, 0, 0, 1],  # tired
    ],
    dtype=float,
)

ROBOT_COLUMNS = ("noun", "subject", "no noun", "action")  # of queries and keys

# How a word can be found.
ROBOT_W_K = np.array(
    [
        [0, 0, 1, 0],  # article
        [1, 0, 0, 0],  # noun
        [0, 1, 0, 0],  # subject
        [0, 0, 1, 1],  # verb
        [0, 0, 1, 0],  # conjunction
        [0, 0, 1, 0],  # pronoun
        [0, 0, 1, 0],  # auxiliary
        [0, 0, 1, 0],  # adjective
    ],
    dtype=float,
)

# What a word looks for.
ROBOT_W_Q = np.array(
    [
        [3.0, 0.0, -1.0, 0.0],  # an article: its noun
        [-1.0, 0.0, 0.0, 3.0],  # a noun: what is done
        [0.0, 1.0, 0.0, 1.0],  # a subject: more so
        [2.0, 2.0, -1.0, 0.0],  # a verb: who does it, and to whom
        [0.0, 0.0, 0.0, 4.0],  # a conjunction: the action it explains
        [1.6, 2.2, -2.8, 0.0],  # a pronoun: a noun, best the subject
        [1.0, 2.0, -1.0, 0.0],  # an auxiliary: a subject
        [2.5, 1.0, -2.0, 0.0],  # an adjective: a noun to describe
    ]
)

# What a word hands over. Columns: thing, action, grammar.
ROBOT_W_V = np.array(
    [
        [0, 0, 1],
        [1, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 1, 1],
        [1, 0, 0],
    ],
    dtype=float,
)
