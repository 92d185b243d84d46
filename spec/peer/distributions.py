"""Writes spec/distributions/reference.lua: log-densities, distribution functions, quantiles,
moments and entropies by SciPy, divergences by PyTorch, slopes of gamma variates by series of 50
digits (mpmath), and so quantiles of Student's t and entropies of beta, where SciPy 1.10 has 8 digits. spec/distributions/distributions_spec.lua compares with them, on machines without
these packages too.

  python3 spec/peer/distributions.py >spec/distributions/reference.lua
"""
import textwrap

import mpmath as mp
import numpy as np
import torch
from scipy import stats
from torch import distributions as td

SHARES = [1e-9, 1e-4, 0.02, 0.3, 0.5, 0.77, 0.999, 1 - 1e-6]
mp.mp.dps = 50


def lua(v):
    if isinstance(v, str):
        return '"%s"' % v
    if isinstance(v, dict):
        return "{ " + ", ".join("%s = %s" % (k, lua(w)) for k, w in v.items() if w is not None) + " }"
    if isinstance(v, (list, tuple)):
        return "{ " + ", ".join(lua(w) for w in v) + " }"
    if isinstance(v, (np.ndarray, torch.Tensor)):
        return lua(v.tolist())
    v = float(v)
    if v != v:
        return "0 / 0"
    if v in (float("inf"), float("-inf")):
        return "math.huge" if v > 0 else "-math.huge"
    return repr(v)


def entry(name, args, d, values, mode, discrete=False, entropy=True, icdf=True):
    values = np.array(values, dtype=np.float64)
    out = {"name": name, "args": args, "values": values,
           "log_prob": d.logpmf(values) if discrete else d.logpdf(values), "cdf": d.cdf(values)}
    if not discrete and icdf:
        out["shares"], out["icdf"] = SHARES, d.ppf(SHARES)
    out["mean"], out["variance"], out["mode"] = d.mean(), d.var(), mode
    if entropy:
        out["entropy"] = d.entropy()
    return out


def t_quantile(df, share):
    df, tail = mp.mpf(df), min(mp.mpf(share), 1 - mp.mpf(share))
    if tail == 0.5:
        return 0

    def excess(log):
        t = mp.exp(log)
        return mp.log(mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + t * t), regularized=True) / 2 / tail)
    guess = abs(stats.t(float(df)).ppf(float(tail)))
    return mp.exp(mp.findroot(excess, mp.log(guess))) * (1 if share > 0.5 else -1)


def beta_entropy(a, b):
    a, b = mp.mpf(a), mp.mpf(b)
    return mp.log(mp.beta(a, b)) - (a - 1) * mp.digamma(a) - (b - 1) * mp.digamma(b) + (a + b - 2) * mp.digamma(a + b)


def entries():
    line = [-7.5, -1.0, -1e-3, 0.0, 0.3, 2.0, 11.0]
    up = [1e-6, 0.01, 0.4, 1.0, 2.5, 9.0, 40.0]
    inner = [1e-7, 0.01, 0.2, 0.5, 0.77, 0.999, 1 - 1e-9]
    for loc, scale in [(0, 1), (0.7, 0.25), (-3, 12.5)]:
        yield entry("Normal", [loc, scale], stats.norm(loc, scale), line, loc)
        yield entry("Laplace", [loc, scale], stats.laplace(loc, scale), line, loc)
        yield entry("LogNormal", [loc, scale / 5], stats.lognorm(scale / 5, scale=np.exp(loc)), up,
                    np.exp(loc - (scale / 5) ** 2))
        for df in (0.6, 1, 2.5, 30, 900):
            e = entry("StudentT", [df, loc, scale], stats.t(df, loc, scale), line, loc)
            e["icdf"] = [loc + scale * t_quantile(df, p) for p in SHARES]
            e["mean"], e["variance"] = (loc if df > 1 else np.nan), (e["variance"] if df > 2 else np.nan)
            yield e
    for low, high in [(0, 1), (-2.5, 7)]:
        d = stats.uniform(low, high - low)
        yield entry("Uniform", [low, high], d, [low + 0.01, (low + high) / 2, high - 1e-3], None)
    for rate in (0.2, 1, 30):
        yield entry("Exponential", [rate], stats.expon(scale=1 / rate), up, 0)
        yield entry("Poisson", [rate], stats.poisson(rate), [0, 1, 2, 5, 30, 41],
                    np.floor(rate), True, False)
    for a in (0.05, 0.5, 1, 2.3, 40, 700):
        for rate in (1, 0.03):
            d = stats.gamma(a, scale=1 / rate)
            yield entry("Gamma", [a, rate], d, [d.ppf(0.02), d.ppf(0.5), d.ppf(0.9), d.ppf(0.9999)],
                        max(a - 1, 0) / rate)
    for a, b in [(0.5, 0.5), (1, 1), (2, 3), (0.1, 7), (30, 20), (400, 900)]:
        mode = (a - 1) / (a + b - 2) if a > 1 and b > 1 else None
        yield entry("Beta", [a, b], stats.beta(a, b), inner, mode) | {"entropy": beta_entropy(a, b)}
    for p in (1e-6, 0.3, 0.5, 0.999):
        yield entry("Bernoulli", [p], stats.bernoulli(p), [0, 1], float(p >= 0.5), True)
        yield entry("Geometric", [p], stats.geom(p, loc=-1), [0, 1, 7, 100], 0, True, False)
        for n in (1, 12, 150):
            yield entry("Binomial", [n, p], stats.binom(n, p), [0, 1, n // 2, n],
                        min(np.floor((n + 1) * p), n), True, False)
    a = [0.4, 2.0, 3.3, 1.0]
    x = [[0.1, 0.2, 0.3, 0.4], [0.97, 0.01, 0.01, 0.01]]
    d = stats.dirichlet(a)
    yield {"name": "Dirichlet", "args": [a], "values": x, "log_prob": [d.logpdf(v) for v in x],
           "mean": d.mean(), "variance": d.var(), "entropy": d.entropy()}
    loc, cov = [1.0, -2.0, 0.5], [[2.0, 0.3, 0.1], [0.3, 1.5, -0.4], [0.1, -0.4, 0.9]]
    x = [[0.0, 0.0, 0.0], [3.0, -4.0, 1.0]]
    d = stats.multivariate_normal(loc, cov)
    yield {"name": "MultivariateNormal", "args": [loc, cov], "values": x, "log_prob": d.logpdf(x),
           "mean": loc, "mode": loc, "variance": np.diag(cov), "entropy": d.entropy()}
    p = [0.1, 0.6, 0.3]
    yield {"name": "Categorical", "args": [p], "values": [1, 2, 3], "log_prob": np.log(p), "mode": 2,
           "entropy": stats.entropy(p)}


def divergences():
    def t(v):
        return torch.tensor(v, dtype=torch.float64)
    a, b = [[1.5, 0.2], [0.2, 0.8]], [[1.0, -0.3], [-0.3, 2.0]]
    for p, q, pa, qa in [
            ("Normal", "Normal", [0.3, 2.0], [-1.0, 0.7]), ("LogNormal", "LogNormal", [0.3, 2.0], [-1.0, 0.7]),
            ("Uniform", "Uniform", [0.0, 1.0], [-2.0, 3.0]), ("Uniform", "Uniform", [0.0, 1.0], [0.5, 3.0]),
            ("Laplace", "Laplace", [0.3, 2.0], [-1.0, 0.7]), ("Exponential", "Exponential", [0.3], [2.0]),
            ("Gamma", "Gamma", [2.0, 3.0], [0.4, 1.5]), ("Beta", "Beta", [2.0, 3.0], [0.4, 1.5]),
            ("Dirichlet", "Dirichlet", [[2.0, 3.0, 0.5]], [[0.4, 1.5, 1.0]]), ("Bernoulli", "Bernoulli", [0.3], [0.9]),
            ("Binomial", "Binomial", [7.0, 0.3], [7.0, 0.9]), ("Geometric", "Geometric", [0.3], [0.9]),
            ("Poisson", "Poisson", [0.3], [2.9]), ("Categorical", "Categorical", [[0.2, 0.3, 0.5]], [[0.5, 0.4, 0.1]]),
            ("MultivariateNormal", "MultivariateNormal", [[0.5, 1.0], a], [[-0.5, 0.0], b]),
            ("Exponential", "Gamma", [0.3], [2.0, 3.0]), ("Gamma", "Exponential", [2.0, 3.0], [0.3]),
            ("Uniform", "Normal", [0.0, 1.5], [-1.0, 0.7]), ("Laplace", "Normal", [0.3, 2.0], [-1.0, 0.7]),
            ("Normal", "Laplace", [0.3, 2.0], [-1.0, 0.7]), ("Uniform", "Beta", [0.25, 0.75], [0.4, 1.5])]:
        made = [getattr(td, n)(*[t(v) for v in args]) for n, args in ((p, pa), (q, qa))]
        yield {"p": p, "p_args": pa, "q": q, "q_args": qa, "kl": td.kl_divergence(*made)}


def slope(a, x):
    """d log x / da along the quantiles of the gamma distribution."""
    a, x = mp.mpf(a), mp.mpf(x)

    def share(c):
        term, total, n = mp.mpf(1), mp.mpf(1), 0
        while term > mp.mpf(10) ** -46 * total:
            n += 1
            term *= x / (c + n)
            total += term
        return mp.exp(c * mp.log(x) - x - mp.loggamma(c + 1)) * total
    h = a * mp.mpf(10) ** -14
    density = mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))
    return -(share(a + h) - share(a - h)) / (2 * h) / density / x


def slopes():
    for a in [1e-3, 0.1, 0.5, 1, 3.7, 10, 29, 30.5, 50, 200, 800]:
        for f in [1e-3, 0.3, 0.7, 0.97, 0.9999, 1, 1.05, 1.3, 1.4]:
            if (a < 100 or f > 0.6) and (a < 400 or f < 1.2):
                yield [a, a * f, slope(a, a * f)]


print("-- Written by spec/peer/distributions.py: SciPy, PyTorch and mpmath.")
print("return {")
for title, rows in (("values", entries()), ("divergences", divergences()), ("slopes", slopes())):
    print("  %s = {" % title)
    for row in rows:
        print(textwrap.fill(lua(row) + ",", 98, initial_indent="    ", subsequent_indent="      ",
                            break_long_words=False, break_on_hyphens=False))
    print("  },")
print("}")
