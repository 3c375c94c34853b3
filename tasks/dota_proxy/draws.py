"""Random numbers as a hash of counters, so that a game's luck depends on (seed, game, episode, tick, unit) alone."""

MASK = 0xFFFFFFFF


def mixed(key, counter):
    """A 32-bit hash of two 32-bit numbers: murmur3's finaliser (Appleby), a bijection of either for a fixed other.

    Takes Python's integers, numba's int64 or torch's int64 tensors: a product that overflows 64 bits keeps its low 32.
    """
    value = (key ^ counter) & MASK
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & MASK
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & MASK
    return value ^ (value >> 16)
