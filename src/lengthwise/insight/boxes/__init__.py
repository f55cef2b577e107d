"""Boxes, whose stories have known answers and graphs: what a model answers, and whether its heads follow the graph.

scores = insight.boxes.score_answers(classifier, task, length=6, strings=100)
scores.exact.share, scores.layers
"""

from .generated_answers import AnswerScores, Score, add_scores, count_answers, generate_answers, score_answers
from .link_truth import LinkTruth, judge_links
from .mentions import Mention, Source, dependent_mentions

__all__ = [
    "AnswerScores",
    "LinkTruth",
    "Mention",
    "Score",
    "Source",
    "add_scores",
    "count_answers",
    "dependent_mentions",
    "generate_answers",
    "judge_links",
    "score_answers",
]
