def llama(o): pass
def files(o): pass
