def tests(bench):
    return []
