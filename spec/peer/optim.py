"""Optimisers against PyTorch: spec/peer/optim.py [flame-lua]. Each rule runs 20 steps in f64 on
a quadratic with a quartic term, here and there; prints the largest difference of the
parameters and of the learning rates, and ends with 1 if one is beyond its bound."""
import subprocess, sys, torch

STEPS = 20
RULES = [   # name, options in Lua, options in Python
    ("SGD", "lr = 0.05", dict(lr=0.05)),
    ("SGD", "lr = 0.05, momentum = 0.9, weight_decay = 0.1", dict(lr=0.05, momentum=0.9, weight_decay=0.1)),
    ("SGD", "lr = 0.02, momentum = 0.9, dampening = 0.3", dict(lr=0.02, momentum=0.9, dampening=0.3)),
    ("SGD", "lr = 0.02, momentum = 0.9, nesterov = true", dict(lr=0.02, momentum=0.9, nesterov=True)),
    ("SGD", "lr = 0.001, maximize = true", dict(lr=0.001, maximize=True)),
    ("Adam", "", dict()),
    ("Adam", "lr = 0.1, betas = {0.7, 0.9}, eps = 1e-3, weight_decay = 0.1", dict(lr=0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.1)),
    ("Adam", "lr = 0.1, amsgrad = true", dict(lr=0.1, amsgrad=True)),
    ("Adam", "lr = 0.01, maximize = true", dict(lr=0.01, maximize=True)),
    ("AdamW", "", dict()),
    ("AdamW", "lr = 0.1, betas = {0.7, 0.9}, weight_decay = 0.3, amsgrad = true", dict(lr=0.1, betas=(0.7, 0.9), weight_decay=0.3, amsgrad=True)),
    ("RMSprop", "", dict()),
    ("RMSprop", "lr = 0.02, alpha = 0.8, eps = 1e-4, weight_decay = 0.1, momentum = 0.5, centered = true",
     dict(lr=0.02, alpha=0.8, eps=1e-4, weight_decay=0.1, momentum=0.5, centered=True)),
    ("Adagrad", "", dict()),
    ("Adagrad", "lr = 0.3, lr_decay = 0.1, weight_decay = 0.1, initial_accumulator_value = 0.5, eps = 1e-3",
     dict(lr=0.3, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3)),
    ("Adadelta", "lr = 2, rho = 0.8, weight_decay = 0.1", dict(lr=2, rho=0.8, weight_decay=0.1)),
    ("Adamax", "lr = 0.1, weight_decay = 0.1", dict(lr=0.1, weight_decay=0.1)),
    ("NAdam", "lr = 0.1, weight_decay = 0.1", dict(lr=0.1, weight_decay=0.1)),
    ("RAdam", "lr = 0.1, weight_decay = 0.1", dict(lr=0.1, weight_decay=0.1)),
    ("Rprop", "lr = 0.05", dict(lr=0.05)),
    ("ASGD", "lr = 0.05, lambd = 1e-2, alpha = 0.6, t0 = 3, weight_decay = 0.1",
     dict(lr=0.05, lambd=1e-2, alpha=0.6, t0=3, weight_decay=0.1)),
    ("LBFGS", "lr = 0.1, max_iter = 4", dict(lr=0.1, max_iter=4)),
    ("LBFGS", "max_iter = 5, history_size = 3, line_search_fn = 'strong_wolfe'",
     dict(max_iter=5, history_size=3, line_search_fn="strong_wolfe")),
]
S = torch.optim.lr_scheduler
SCHEDULES = [
    ("step", "step_size = 3, gamma = 0.5", lambda o: S.StepLR(o, 3, 0.5)),
    ("multi_step", "milestones = {2, 5, 11}, gamma = 0.3", lambda o: S.MultiStepLR(o, [2, 5, 11], 0.3)),
    ("exponential", "gamma = 0.9", lambda o: S.ExponentialLR(o, 0.9)),
    ("linear", "start_factor = 0.2, end_factor = 0.9, total_iters = 7", lambda o: S.LinearLR(o, 0.2, 0.9, 7)),
    ("constant", "factor = 0.5, total_iters = 4", lambda o: S.ConstantLR(o, 0.5, 4)),
    ("polynomial", "total_iters = 8, power = 2", lambda o: S.PolynomialLR(o, 8, 2)),
    ("cosine", "steps = 20, min = 0.01", lambda o: S.CosineAnnealingLR(o, 20, 0.01)),
    ("cosine_restarts", "T_0 = 3, T_mult = 2, eta_min = 0.01", lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.01)),
    ("one_cycle", "max_lr = 1, total_steps = 30", lambda o: S.OneCycleLR(o, 1, 30)),
    ("one_cycle", "max_lr = 1, total_steps = 30, anneal_strategy = 'linear', three_phase = true",
     lambda o: S.OneCycleLR(o, 1, 30, anneal_strategy="linear", three_phase=True)),
    ("cyclic", "base_lr = 0.1, max_lr = 1, step_size_up = 4, mode = 'exp_range', gamma = 0.9",
     lambda o: S.CyclicLR(o, 0.1, 1, 4, mode="exp_range", gamma=0.9)),
    ("multiplicative", "f = function(k) return 1 - 0.1 / k end", lambda o: S.MultiplicativeLR(o, lambda k: 1 - 0.1 / k)),
    ("cyclic", "base_lr = 0.1, max_lr = 1, step_size_up = 4, step_size_down = 3, mode = 'triangular2', cycle_momentum = false",
     lambda o: S.CyclicLR(o, 0.1, 1, 4, 3, "triangular2", cycle_momentum=False)),
]
# torch 1.13 squares a factor of NAdam's schedule; torch 2 does what is done here
if torch.__version__.startswith("1."):
    RULES = [r for r in RULES if r[0] != "NAdam"]
START = [[0.5, -1.25, 2.0], [0.1, 0.2, -0.3]]
SCALE = [[1.0, 3.0, 0.25], [2.0, 0.5, 1.5]]

LUA = """
local optim = require "flame.optim"
local function values(t) return "{" .. table.concat(t, ",") .. "}" end
local function problem()
  local p = flame.tensor({START}, {dtype = "f64", requires_grad = true})
  local s = flame.tensor({SCALE}, {dtype = "f64"})
  return p, function() p.grad = nil; local l = (p * p * s):sum() + ((p - 0.3) ^ 4):sum(); l:backward(); return l end
end
local function run(name, options)
  local p, loss = problem()
  local opt = optim[name]({p}, options)
  for _ = 1, STEPS do if name == "LBFGS" then opt:step(loss) else loss(); opt:step() end
    for _, v in ipairs(p:reshape(-1):totable()) do io.write(("%.17g "):format(v)) end end
  print()
end
local function rates(name, options)
  local p = flame.tensor({1}, {requires_grad = true})
  local opt = optim.SGD({p}, {lr = 0.25, momentum = 0.9})
  options.opt = opt
  local s = optim.schedule[name](options)
  for _ = 1, STEPS do io.write(("%.17g %.17g "):format(opt.lr, opt.groups[1].momentum)); s:step() end
  print()
end
"""


def lua_of(rows):
    return "{" + ",".join("{" + ",".join(map(repr, r)) + "}" for r in rows) + "}"


def torch_rule(name, options):
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    s = torch.tensor(SCALE, dtype=torch.float64)
    opt, out = getattr(torch.optim, name)([p], **options), []

    def loss():
        opt.zero_grad()
        value = (p * p * s).sum() + ((p - 0.3) ** 4).sum()
        value.backward()
        return value
    for _ in range(STEPS):
        if name == "LBFGS":
            opt.step(loss)
        else:
            loss()
            opt.step()
        out += p.detach().reshape(-1).tolist()
    return out


def torch_rates(make):
    opt = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.25, momentum=0.9)
    schedule, out = make(opt), []
    for _ in range(STEPS):
        out += [opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"]]
        opt.step()
        schedule.step()
    return out


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/flame-lua"
    text = LUA.replace("{START}", lua_of(START)).replace("{SCALE}", lua_of(SCALE)).replace("STEPS", str(STEPS))
    text += "".join(f'run("{n}", {{{o}}})\n' for n, o, _ in RULES)
    text += "".join(f'rates("{n}", {{{o}}})\n' for n, o, _ in SCHEDULES)
    lines = subprocess.run([program, "-"], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = [(n, o, torch_rule(n, p)) for n, o, p in RULES] + [(n, o, torch_rates(m)) for n, o, m in SCHEDULES]
    bad = 0
    for (name, options, want), line in zip(wanted, lines, strict=True):
        have = [float(v) for v in line.split()]
        worst = max(abs(a - b) for a, b in zip(have, want, strict=True))
        bound = {"LBFGS": 1e-6, "ASGD": 1e-7, "NAdam": 1e-7}.get(name, 1e-9)  # a history that doubles rounding errors; rates kept in f32
        bad += worst > bound
        print(f"{worst:9.2e} {'  ' if worst <= bound else '! '}{name} {options}")
    print(f"{len(wanted) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
