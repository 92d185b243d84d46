def make(scale):
    pass
