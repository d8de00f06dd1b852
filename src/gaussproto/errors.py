"""What a user did wrong, in one sentence."""


class InputError(ValueError):
    """A mistake in what the user gave: says what was wrong, what was found and what to do.

    The command line prints it on one line and leaves with exit code 2; anything else that is raised is a bug of ours.
    """
