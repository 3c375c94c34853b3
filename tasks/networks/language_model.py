"""An LSTM language model of one layer (Jozefowicz et al. 2016, arXiv 1602.02410), at any size."""

import torch.nn.functional as F
from torch import Tensor, nn

INITIAL = 0.1  # weights of embedding and output are uniform within +- this: the first loss is near ln(vocabulary)


class LSTMLanguageModel(nn.Module):
    """Predicts each token from those before it in its sequence; the state is zero where a sequence begins.

    Args:
        vocabulary: tokens. embedding, hidden: sizes of the embedding and of the LSTM.
        tied: the output layer shares the embedding's weights, behind a projection to its size (Press and Wolf 2017,
            arXiv 1608.05859).
    """

    def __init__(self, vocabulary: int, embedding: int, hidden: int, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.projection = nn.Linear(hidden, embedding, bias=False) if tied else nn.Identity()
        self.output = nn.Linear(embedding if tied else hidden, vocabulary)
        nn.init.uniform_(self.embedding.weight, -INITIAL, INITIAL)
        nn.init.uniform_(self.output.weight, -INITIAL, INITIAL)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (n, length) int64; logits (n, length, vocabulary) of the token after each."""
        states, _ = self.lstm(self.embedding(tokens))
        return self.output(self.projection(states))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over all tokens, in nats: logits (n, length, vocabulary), targets (n, length)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
