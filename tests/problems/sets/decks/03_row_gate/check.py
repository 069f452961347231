import reference

assert reference.Model
