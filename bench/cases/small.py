"""The cases of bench/cases/small.lua in PyTorch."""
import torch
import torch.nn.functional as F

from cases.nets import perceptron


def ppo(o, peer):
    nets = peer.net(torch.nn.ModuleList([perceptron((4, 64, 64, 2)), perceptron((4, 64, 64, 1))]))
    actor, critic = nets
    seen, gain, value, before, moves = (peer.given[n] for n in ("seen", "gain", "value", "before", "moves"))

    def objective():
        logs = torch.log_softmax(actor(seen), 1)
        ratio = (logs.gather(1, moves).squeeze(1) - before).exp()
        kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = (logs.exp() * logs).sum(1).mean()
        return 0.5 * F.mse_loss(critic(seen).squeeze(1), value) - kept + 0.01 * entropy
    return peer.train(nets, peer.adam(nets.parameters(), lr=1e-3), objective, clip=0.5, small=True)


def pinn(o, peer):
    net, x, t = peer.net(perceptron((2, 20, 20, 20, 20, 1))), peer.given["x"], peer.given["t"]

    def by_gradients():                            # gradients of gradients, as such programs are written
        u = net(torch.cat((x, t), 1))
        ux, ut = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        uxx, = torch.autograd.grad(ux.sum(), x, create_graph=True)
        return (ut + u * ux - 0.01 / torch.pi * uxx).square().mean()

    def by_tangents():                             # torch.compile refuses the former
        jvp, one = torch.func.jvp, torch.ones_like(x)

        def along_x(z):
            return jvp(lambda y: net(torch.cat((y, t), 1)), (z,), (one,))
        (u, ux), (_, uxx) = jvp(along_x, (x,), (one,))
        ut = jvp(lambda s: net(torch.cat((x, s), 1)), (t,), (one,))[1]
        return (ut + u * ux - 0.01 / torch.pi * uxx).square().mean()

    compiled = peer.kind == "compile"
    if not compiled:
        x.requires_grad_(True)
        t.requires_grad_(True)
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3), by_tangents if compiled else by_gradients, small=True)


def runge_kutta(law, x, count, dt):
    for _ in range(count):
        a = law(x)
        b = law(x + a * (dt / 2))
        c = law(x + b * (dt / 2))
        d = law(x + c * dt)
        x = x + (a + 2 * b + 2 * c + d) * (dt / 6)
    return x


def ode_solve(o, peer):
    net, x = peer.net(perceptron((2, 50, 2))), peer.given["x"]
    if peer.kind != "compile":
        return peer.call(torch.no_grad()(lambda: runge_kutta(net, x, o["steps"], 0.05)))
    ten = peer.wrap(lambda y: runge_kutta(net, y, 10, 0.05), small=True)   # what compiles in seconds

    def run():
        y = x
        with torch.no_grad():
            for _ in range(o["steps"] // 10):
                torch.compiler.cudagraph_mark_step_begin()
                y = ten(y).clone()                 # the graph's own memory is written again by the next
        return y
    return peer.case(run)


def ode_step(o, peer):
    net, x, y = peer.net(perceptron((2, 50, 2))), peer.given["x"], peer.given["y"]
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3),
                      lambda: F.mse_loss(runge_kutta(net, x, o["steps"], 0.05), y), small=True)


CASES = {"ppo": ppo, "pinn": pinn, "ode_solve": ode_solve, "ode_step": ode_step}
