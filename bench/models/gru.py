"""bench/models/gru.lua in PyTorch; torch.compile leaves cuDNN's recurrent nets as they are."""
import torch.nn.functional as F
from torch import nn


def make(o, peer):
    w = o["width"]
    net = peer.net(nn.ModuleList([nn.Embedding(o["vocabulary"], w), nn.GRU(w, w, 2, bidirectional=True, batch_first=True),
                                  nn.Linear(2 * w, 10)]))
    (words, rnn, head), x, t = net, peer.given["x"], peer.given["t"]
    return peer.train(net, peer.adam(net.parameters(), lr=1e-3), lambda: F.cross_entropy(head(rnn(words(x))[0].mean(1)), t))
