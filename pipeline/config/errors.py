"""The errors a user can mend, apart from the failures that are ours."""


class UsageError(Exception):
    """Bad usage, configuration or data, refused with what to do next.

    The command line prints its text alone and exits with status 2; everything
    else that is raised is a failure and exits with status 1.
    """
