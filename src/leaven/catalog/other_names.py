"""Models and datasets by the names that other tools have for them, with the form that a recipe has.

Tables of patterns, tried in order, and what they mean here; where there is no such model, the nearest one. Only read
where something is wrong.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leaven.catalog import lookup, own
from leaven.catalog.value_text import quoted
from leaven.language.record import Record


class Counterpart(Record):
    """How a recipe writes what another tool names. `lacking` is what there is none of, so that it is only near."""

    form: str  # with `…` for what is left for the user to fill in
    lacking: str = ""


# Names on the Hub and in other libraries, without their owner, of models that timm or torchvision has too.
_SAME_MODELS = {
    r"vit-(tiny|small|base|large)-patch(\d+)-(\d+)": r"vit_\1_patch\2_\3(pretrained=true)",
    r"vit-(base|large)-patch(\d+)-(\d+)-in21k": r"vit_\1_patch\2_\3.augreg_in21k(pretrained=true)",
    r"vit-([bl])-(16|32)": r"torchvision.vit_\1_\2(pretrained=true)",
    r"deit-(tiny|small|base)-patch16-224": r"deit_\1_patch16_224(pretrained=true)",
    r"beit-(base|large)-patch16-(\d+)(-.*)?": r"beit_\1_patch16_\2(pretrained=true)",
    r"swinv?2?-(tiny|small|base|large)-patch4-window(\d+)-(\d+)": r"swin_\1_patch4_window\2_\3(pretrained=true)",
    r"convnext-(tiny|small|base|large)-\d+(-22k.*)?": r"convnext_\1(pretrained=true)",
    r"convnextv2-(atto|femto|pico|nano|tiny|base|large)-.*": r"convnextv2_\1(pretrained=true)",
    r"dinov2-(small|base|large)": r"vit_\1_patch14_dinov2(pretrained=true)",
    r"dinov2_vitb14": "vit_base_patch14_dinov2(pretrained=true)",
    r"clip-vit-(base|large)-patch(\d+)": r"vit_\1_patch\2_clip_224(pretrained=true)",
    r"siglip-base-patch16-224": "vit_base_patch16_siglip_224(pretrained=true)",
    r"mobilevit-small": "mobilevit_s(pretrained=true)",
    r"mobilevit-x-small": "mobilevit_xs(pretrained=true)",
    r"regnet-([xy])-(\d+)": r"regnet\1_\2(pretrained=true)",
    r"bit-50": "resnetv2_50x1_bit(pretrained=true)",
    r"resnet-?(\d+)v2": r"resnetv2_\1(pretrained=true)",
    r"mobilenet(_v2_1[._]0_\d+)?": "mobilenetv2_100(pretrained=true)",
    r"efficientnet": "efficientnet_b0(pretrained=true)",
    r"resnet": "resnet50(pretrained=true)",
    r"convnext": "convnext_tiny(pretrained=true)",
    r"densenet": "densenet121(pretrained=true)",
    r"vgg": "vgg16(pretrained=true)",
    r"swin": "swin_tiny_patch4_window7_224(pretrained=true)",
    r"deit": "deit_small_patch16_224(pretrained=true)",
    r"clip": "vit_base_patch32_clip_224(pretrained=true)",
    r"dinov2(_vits14)?": "vit_small_patch14_dinov2(pretrained=true)",
    r"vit": "vit_base_patch16_224(pretrained=true)",
    r"faster-?_?rcnn": "torchvision.fasterrcnn_resnet50_fpn(pretrained=true)",
    r"mask-?_?rcnn": "torchvision.maskrcnn_resnet50_fpn(pretrained=true)",
    r"retinanet": "torchvision.retinanet_resnet50_fpn(pretrained=true)",
    r"ssd": "torchvision.ssd300_vgg16(pretrained=true)",
    r"deeplabv?3?": "torchvision.deeplabv3_resnet50(pretrained=true)",
    r"all-minilm-l6-v2|minilm-l6.*": "minilm(pretrained=true)",
    r"bert": 'transformers.auto("bert-base-uncased", pretrained=true)',
    r"distilbert": 'transformers.auto("distilbert-base-uncased", pretrained=true)',
    r"roberta": 'transformers.auto("roberta-base", pretrained=true)',
}

# What there is no counterpart for: what it is called, and the nearest model.
_NEAREST_MODELS = {
    r"(yolo|rt-?detr).*-cls.*": ("YOLO models", "efficientnet_b0(pretrained=true)"),
    r"yolo.*-seg.*": ("YOLO models", "torchvision.maskrcnn_resnet50_fpn(pretrained=true)"),
    r"yolo.*-pose.*": ("models for key points", ""),
    r"yolo.*": ("YOLO models", "torchvision.ssdlite320_mobilenet_v3_large(pretrained=true)"),
    r"(rt-?|rf-?|conditional-|deformable-)?detr.*|efficientdet.*": (
        "DETR or EfficientDet models",
        "torchvision.fasterrcnn_resnet50_fpn_v2(pretrained=true)",
    ),
    r"(smp\.)?(unet|fpn|pspnet|linknet|manet|segformer|mit-b\d|upernet|mask2former|oneformer).*|deeplabv3plus": (
        "models of that kind for masks",
        "torchvision.deeplabv3_resnet50(pretrained=true)",
    ),
    r"sam(-|_|2).*|sam": ("models that are prompted", "torchvision.deeplabv3_resnet50(pretrained=true)"),
    r".*(gpt|llama|mistral|mixtral|qwen|gemma|falcon|bloom|pythia|deepseek|pegasus).*|(.*-)?(t5|bart|phi|opt)(-.*)?": (
        "models that write text",
        'transformers.auto("roberta-base", pretrained=true)',
    ),
    r".*(whisper|wav2vec|hubert).*": ("models for sound", ""),
    r".*(stable-diffusion|flux|sdxl).*": ("models that draw images", ""),
}

# What the names of encoders for texts have in common.
_TEXT_MODEL = r".*(bert|electra|xlnet|mpnet|minilm|ernie|longformer|bigbird|funnel|(^|[-_])(bge|e5|gte)[-_]).*"

# Datasets of texts by their names on the Hub, of today and of before, with the arguments of `datasets.auto`.
_TEXT_DATASETS = {
    r"(stanfordnlp/)?imdb": '"stanfordnlp/imdb", text="text", label="label"',
    r"(fancyzhx/)?ag_?news": '"fancyzhx/ag_news", text="text", label="label"',
    r"(stanfordnlp/)?sst-?2|glue/sst2": '"stanfordnlp/sst2", text="sentence", label="label"',
    r"(\w+/)?rotten_tomatoes": '"cornell-movie-review-data/rotten_tomatoes", text="text", label="label"',
    r"(yelp/)?yelp_review_full|yelp": '"Yelp/yelp_review_full", text="text", label="label"',
    r"(fancyzhx/)?yelp_polarity": '"fancyzhx/yelp_polarity", text="text", label="label"',
    r"(fancyzhx/)?amazon_polarity": '"fancyzhx/amazon_polarity", text="content", label="label"',
    r"(fancyzhx/)?dbpedia(_14)?": '"fancyzhx/dbpedia_14", text="content", label="label"',
    r"(dair-ai/)?emotion": '"dair-ai/emotion", text="text", label="label"',
    r"(ucirvine/)?sms_?spam": '"ucirvine/sms_spam", text="sms", label="label"',
    r"(setfit/)?(20_?newsgroups|fetch_20newsgroups)": '"SetFit/20_newsgroups", text="text", label="label"',
    r"(glue/)?(mrpc|rte|wnli)": r'"nyu-mll/glue", config="\2", text=["sentence1", "sentence2"], label="label"',
    r"(glue/)?(cola)": r'"nyu-mll/glue", config="\2", text="sentence", label="label"',
    r"(glue/)?(qqp)": r'"nyu-mll/glue", config="\2", text=["question1", "question2"], label="label"',
    r"(glue/)?(qnli)": r'"nyu-mll/glue", config="\2", text=["question", "sentence"], label="label"',
    r"(glue/)?(stsb)": r'"nyu-mll/glue", config="\2", text=["sentence1", "sentence2"], target="label"',
    r"(stanfordnlp/)?snli": '"stanfordnlp/snli", text=["premise", "hypothesis"], label="label"',
    r"tweet_eval": '"cardiffnlp/tweet_eval", config="sentiment", text="text", label="label"',
    r"tweet_eval/(\w+)": r'"cardiffnlp/tweet_eval", config="\1", text="text", label="label"',
    r"(\w+/)?go_emotions": '"google-research-datasets/go_emotions", config="simplified", text="text", labels="labels"',
}

_IMAGE_DATASETS = {
    r"(uoft-cs/)?cifar-?_?(10|100)": r'cifar\2("data")',
    r"(ylecun/)?mnist": 'mnist("data")',
    r"(zalando-datasets/)?fashion-?_?mnist": 'fashion_mnist("data")',
    r"(ethz/)?food-?_?101": 'torchvision.food101("data")',
    r"(nelorth/)?(oxford[-_])?flowers-?(102)?": 'torchvision.flowers102("data")',
    r"(oxford[-_]?iiit[-_]?pets?|pets|urls\.pets)": 'oxford_pets("data")',
    r"(imagenet-?1k|ilsvrc(2012)?)": 'imagenet("data/imagenet")',
    r"tiny-?_?imagenet(-200)?|tf_flowers": 'folder("…")',  # not the datasets of nearly the same names
    r"(cats_?(vs|and)_?dogs|dogs_vs_cats|hymenoptera(_data)?|beans|imagewoof|urls\..*)": 'folder("…")',
}

_PIPELINE = r"(transformers\.)?pipeline"
# Calls of other libraries that name a model: which positional argument has the name.
_MODEL_CALLS = {
    r"(timm\.)?create_model": 0,
    r"(\w+\.)*\w*\.?from_pretrained": 0,
    r"(torchvision\.|models\.)*get_model": 0,
    r"(torch\.)?hub\.load": 1,
    r"(ultralytics\.)?(yolo|rtdetr|sam|fastsam|nas)": 0,
    _PIPELINE: 1,
    r"(\w+\.)*(vision|cnn)_learner": 1,
    r"(\w+\.)*(sentencetransformer|setfitmodel)": 0,
    r"hub\.keraslayer": 0,
}
# What `pipeline("sentiment-analysis")` loads, where no model is named.
_OF_PIPELINES = {
    r"sentiment-analysis|text-classification": "distilbert-base-uncased-finetuned-sst-2-english",
    r"image-classification": "google/vit-base-patch16-224",
    r"object-detection": "facebook/detr-resnet-50",
    r"text-generation": "openai-community/gpt2",
}
# Calls that name a dataset: by an argument (empty), by an argument of their own name (`/`), by their name, or as a form
# with the argument as `{}`.
_DATA_CALLS = {
    r"(datasets\.|tfds\.)?load(_dataset)?": "",
    r"untar_data": "",
    r"(glue|tweet_eval)": "/",
    r"(torchvision\.)?datasets\.(\w+)": r"\2",
    r"(\w+\.)*(imagefolder|image_?folder|from_folder|image_dataset_from_directory|flow_from_directory)": "folder({})",
    r"(\w+\.)*(from_csv|read_csv|from_df)": 'csv({}, image="…", label="…")',
    r"(\w+\.)*(text_dataset_from_directory|textdataloaders\.from_folder)": "text_folder({})",
    r"(\w+\.)*(cocodetection|cococaptions)": "coco({})",
}
_ARGUMENT_OF_NAME = ("model_name", "pretrained_model_name_or_path", "name", "model", "arch", "path", "repo_id")
_FORMATS_OF_HUB = {"imagefolder": "folder", "csv": "csv", "json": "jsonl", "parquet": "parquet", "text": "text_folder"}


def named_by(kind: str, call: str, arguments: Mapping[str, str]) -> Counterpart | None:
    """The counterpart of another library's call. `arguments` are texts of values, positional ones by their number."""
    if kind == "model":
        at = next((at for pattern, at in _MODEL_CALLS.items() if _is(pattern, call)), None)
        texts = [arguments[key] for key in (str(at), *_ARGUMENT_OF_NAME) if at is not None and key in arguments]
        if not texts and _is(_PIPELINE, call):
            task = arguments.get("task", arguments.get("0", "")).strip('"')
            texts = [name for pattern, name in _OF_PIPELINES.items() if _is(pattern, task)]
        return counterpart("model", texts[0].strip('"')) if texts else None
    for pattern, form in _DATA_CALLS.items():
        found = _is(pattern, call)
        if found and form in ("", "/"):
            return _of_hub(arguments if not form else {"0": call, "1": arguments.get("0", "")})
        if found and "{}" in form:
            return Counterpart(form.format(arguments.get("0") or arguments.get("root") or '"…"'))
        if found:
            return counterpart("data", found.expand(form))
    return None


def _of_hub(arguments: Mapping[str, str]) -> Counterpart | None:
    """`load_dataset("glue", "sst2")`, `load_dataset("imagefolder", data_dir="photos")`."""
    name, config = (arguments.get(key, "").strip('"') for key in ("0", "1"))
    if name in _FORMATS_OF_HUB:
        place = next((arguments[key] for key in ("data_dir", "data_files") if key in arguments), '"…"')
        columns = ', text="…", label="…"' if name not in ("imagefolder", "text") else ""
        return Counterpart(f"{_FORMATS_OF_HUB[name]}({place}{columns})")
    return counterpart("data", f"{name}/{config}" if config else name) if name else None


def counterpart(kind: str, name: str) -> Counterpart | None:
    """The counterpart of another tool's name: `microsoft/resnet-50`, `bert-base-uncased`, `yolov8n.pt`, `imdb`."""
    name = re.sub(r"^(hf[-_]hub:|(\w+\.)*applications\.(\w+\.)?)", "", name)
    return _model(name) if kind == "model" else _dataset(name) if kind == "data" else None


def _model(name: str) -> Counterpart | None:
    bare = name.rpartition("/")[2]
    if lookup.find("model", bare):
        return Counterpart(f"{bare}(pretrained=true)")
    if near := _spelt_alike(bare, lookup.names("model")):
        return Counterpart(f"{near}(pretrained=true)")
    for pattern, (lacking, form) in _NEAREST_MODELS.items():
        if _is(pattern, bare) and not _is(_TEXT_MODEL, bare):
            return Counterpart(form, lacking)
    for pattern, form in _SAME_MODELS.items():
        if found := _is(pattern, bare):
            form = found.expand(form).lower() if "transformers" not in form else form
            return Counterpart(form) if lookup.find("model", form.partition("(")[0]) else None
    if _is(_TEXT_MODEL, bare):
        spelt = _spelt_alike(name, usual_models()) or name  # as the Hub spells it: `bert_base_uncased` has dashes there
        return Counterpart(f"transformers.auto({quoted(spelt)}, pretrained=true)")
    return None


@cache
def usual_models() -> dict[str, dict[str, Any]]:
    """The configurations of the most usual text models, by their names on the Hub."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("text_models.json").read_text("utf-8"))
    return found


def _dataset(name: str) -> Counterpart | None:
    if name.lower().endswith((".yaml", ".yml")):
        return Counterpart(f'yolo("…", names={quoted(name)})')
    for card in own.cards("data"):
        if card.data.endings and name.endswith(card.data.endings):
            return Counterpart(f'{card.name}({quoted(name)}, image="…", label="…")')
    texts = {pattern: f"datasets.auto({arguments})" for pattern, arguments in _TEXT_DATASETS.items()}
    for pattern, form in (texts | _IMAGE_DATASETS).items():
        if found := _is(pattern, name):
            return Counterpart(found.expand(form))
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return Counterpart(f'datasets.auto({quoted(name)}, text="…", label="…")')
    return None


def _is(pattern: str, name: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, name, re.IGNORECASE)


def _spelt_alike(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that differs from a name in nothing but dashes, underscores and capitals."""
    squashed = {re.sub(r"[-_. ]", "", candidate).lower(): candidate for candidate in reversed(list(candidates))}
    return squashed.get(re.sub(r"[-_. ]", "", name).lower())
