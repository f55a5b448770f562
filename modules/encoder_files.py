"""The files in an encoder's directory, and the keys of its configuration."""

VOCAB_FILE = "vocab.txt"
MODEL_GARDEN_CONFIG = "bert_config.json"
MODEL_GARDEN_WEIGHTS = "bert_model.ckpt"
HUGGING_FACE_CONFIG = "config.json"
HUGGING_FACE_WEIGHTS = "model.safetensors"
HUGGING_FACE_INDEX = "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_FILE = "tokenizer.json"

LOWER_CASE_KEY = "do_lower_case"
TYPES_KEY = "type_vocab_size"
# Sizes have the same keys in both formats (google-research/bert, `BertConfig`).
SIZE_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    TYPES_KEY,
)
APPROXIMATE_GELU_KEY = "approximate_gelu"  # only `import-encoder` writes it
