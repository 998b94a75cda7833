"""BERT-shaped encoders of texts: the configuration and the modules of `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.bert.modeling_bert import BertModel


class Encoder(nn.Module):
    """Token ids (batch, sequence) int64 → one vector a text (batch, width): the mean over its tokens."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: Tensor) -> Tensor:
        states: Tensor = self.bert(input_ids=ids).last_hidden_state
        return states.mean(dim=1)


def build(shape: Mapping[str, Any], attention: str) -> Encoder:
    """The encoder of a declared shape; weights from torch's generator as it stands. Without dropout: nothing in a step is left to chance."""
    del attention
    config = BertConfig(
        vocab_size=shape["vocabulary"],
        hidden_size=shape["width"],
        intermediate_size=shape["feed_forward"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        max_position_embeddings=shape["context"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=None,
        attn_implementation="sdpa",
    )
    return Encoder(BertModel(config, add_pooling_layer=False))
