"""Lake's one-shot challenge: 20 runs of 20 questions, each with 20 characters of one alphabet to choose from."""

import torch

from gaussproto.data.challenge import Challenge
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.scores import ChallengeScore, Mistake


@torch.inference_mode()
def score_challenge(network: GaussianPrototypicalNetwork, challenge: Challenge, views: int = 1) -> ChallengeScore:
    """Answer every question by the nearest example. Each image is classified independently (inductive).

    Args:
        network: the network to score.
        challenge: the questions, loaded with the data settings of the network (see `load_challenge`).
        views: 1, or 5 to embed each image also moved in four directions, and average.

    Returns:
        The number of wrong answers in each run, and what they were.
    """
    R, C = challenge.answers.shape
    examples, questions = (
        embed_all(network, images.flatten(0, 1), views=views).map(lambda t: t.cpu().unflatten(0, (R, C)))
        for images in (challenge.examples, challenge.questions)
    )
    made = [Embedded(*network.prototypes(run[:, None])) for run in (examples[r] for r in range(R))]
    p, s_class = Embedded.join(made, torch.stack)
    chosen = network.order(questions.x, p, s_class).argmin(dim=1)  # (R, C)
    wrong = chosen != challenge.answers
    mistakes = tuple(
        Mistake(run=r, question=q, right=int(challenge.answers[r, q]), chosen=int(chosen[r, q]))
        for r, q in wrong.nonzero().tolist()
    )
    return ChallengeScore(questions=R * C, wrong=tuple(wrong.sum(dim=1).tolist()), mistakes=mistakes, views=views)
