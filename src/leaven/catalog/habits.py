"""Names and settings of other tools, with their counterparts here. Only read where something is wrong."""

from collections.abc import Mapping


def by_name(others: Mapping[str, str]) -> dict[str, str]:
    """A table of what names of other tools mean, from the names that mean the same, in one string."""
    return {name: meant for meant, names in others.items() for name in names.split()}


# What other tools call it, by the word of the language. Suggested before spellings are compared.
SYNONYMS = by_name(
    {
        "lr": "learning_rate base_lr init_lr lr0 initial_lr base_learning_rate",
        "batch": "batch_size bs train_batch_size per_device_train_batch_size per_device_eval_batch_size "
        "per_gpu_batch_size micro_batch_size samples_per_gpu",
        "epochs": "n_epochs num_epochs max_epochs num_train_epochs nb_epoch nb_epochs total_epochs n_epoch epoch",
        "data": "dataset datamodule dls",
        "model": "base_model backbone arch architecture network net learn learner",
        "schedule": "scheduler lr_scheduler",
        "optimizer": "optim optimiser opt opt_func",
        "loss": "criterion loss_func loss_fn",
        "metrics": "metric",
        "early_stop": "early_stopping earlystopping earlystoppingcallback",
        "checkpoint": "modelcheckpoint model_checkpoint checkpointing",
        "log": "logger loggers",
        "output": "save",
        "train": "fit finetune augment augmentation transforms trainer training training_args trainingarguments solver",
        "phase": "phases stage stages",
        "unfreeze": "unlock",
        "freeze": "lock",
        "workers": "num_workers dataloader_num_workers workers_per_gpu",
        "weight_decay": "wd decay weight_decay_rate",
        "eps": "opt_eps adam_epsilon epsilon",
        "betas": "opt_betas adam_betas",
        "label_smoothing": "smoothing label_smoothing_factor",
        "class_weights": "class_weight",
        "accumulate": "gradient_accumulation_steps accumulate_grad_batches grad_accum_steps grad_accum",
        "seed": "random_seed manual_seed random_state seed_everything",
        "compile": "torch_compile torchcompile",
        "deterministic": "use_deterministic_algorithms full_determinism",
        "devices": "gpus num_gpus n_gpu nproc_per_node num_processes",
        "ema": "model_ema",
        "stochastic_depth": "drop_path droppath drop_path_rate drop_connect",
        "lora": "loraconfig lora_config qlora",
        "ia3": "ia3config",
        "mixup": "mixupcallback",
        "size": "img_size image_size input_size imgsz img_sz crop_size train_crop_size",
        "cross_entropy": "ce crossentropy categorical_crossentropy sparse_categorical_crossentropy",
        "bce": "binary_crossentropy",
        "accuracy": "acc error_rate",
        "eval": "test",
        "sampler": "shuffle",
        "factor": "gamma",
        "temperature": "t",
        "rank": "r lora_r lora_rank",
        "alpha": "lora_alpha",
        "dropout": "lora_dropout",
        "on": "target_modules lora_target_modules",
        "fp16": "16 half float16 16-mixed 16-true mixed_float16",
        "bf16": "bfloat16 bf16-mixed bf16-true mixed_bfloat16",
        "32": "float32 fp32 32-true full no",
        "score": "monitor metric_for_best_model",
        "patience": "early_stopping_patience",
        "at_least": "min_delta early_stopping_threshold",
        "probability": "p prob",
        "conv": "conv2d",
        "linear": "dense fc",
        "batch_norm": "batchnorm2d batch_norm2d bn",
        "max_pool": "maxpool2d maxpooling2d",
        "avg_pool": "avgpool2d averagepooling2d",
        "global_pool": "adaptiveavgpool2d global_avg_pool globalaveragepooling2d",
        "res_block": "basic_block basicblock",
        "squeeze_excite": "se",
        "horizontal_flip": "flip randomflip",
        "rotation": "randomrotation rotate",
        "random_erasing": "cutout randomerasing",
        "trivial_augment_wide": "ta_wide",
        "folder": "image_folder imagefolder",
        "plateau": "reduce_on_plateau reducelronplateau",
        "cosine": "cosine_annealing cosineannealinglr cosine_with_restarts cosinedecay warmup_cosine "
        "cosine_with_warmup cosine_schedule_with_warmup get_cosine_schedule_with_warmup",
        "one_cycle": "onecycle onecyclelr fit_one_cycle",
        "multi_step": "multisteplr",
        "step": "steplr",
        "adamw": "adamw_torch adamw_torch_fused adamw_hf adamw_8bit",
        "top": "k top_k",
        "clip": "grad_clip gradient_clip max_grad_norm clip_grad clip_grad_norm gradient_clip_val",
        "distill": "knowledge_distillation",
        "val": "validation",
        "true": "yes",
    }
)

# Names elsewhere whose value reads differently here, written like a setting: `{}` is the value, `{percent}` a fraction
# as a percentage, `{name}` a string as a name, `{text}` a name as a string, `{globs}` a list of names of layers as
# patterns, `{next}` one more; a key may have a value, too. What has no argument is a statement of its own.
OTHER_FORMS = by_name(
    {
        "schedule.warmup={percent}": "warmup_ratio",
        "schedule.warmup={} steps": "warmup_steps num_warmup_steps",
        "schedule.warmup={} epochs": "warmup_epochs lr_warmup_epochs",
        "schedule={name}()": "lr_scheduler_type lr_scheduler sched",
        "schedule=cosine()": "cos_lr",
        "schedule=one_cycle(1e-3); train epochs={}": "fit_one_cycle",
        "optimizer={name}()": "optim opt",
        "train.precision=fp16": "fp16 mixed_precision=fp16 to_fp16",
        "train.precision=bf16": "bf16 mixed_precision=bf16",
        "train.precision=auto": "amp mixed_precision",
        "train.precision=32": "mixed_precision=no",
        "layer_decay={}": "layer_decay layerwise_lr_decay",
        "ema=": "model_ema",
        "ema={}": "model_ema_decay",
        "mixup={}": "mixup mixup_alpha",
        "cutmix={}": "cutmix cutmix_alpha",
        "stochastic_depth={}": "drop_path drop_path_rate",
        "model.drop_rate={}": "drop dropout",
        "early_stop=val.loss, patience={} epochs": "early_stopping_patience patience",
        "metrics={name}()": "metric_for_best_model eval_metric",
        "checkpoint.every={} steps": "save_steps",
        "checkpoint.every={} epochs": "save_period save_every_n_epochs",
        "checkpoint.keep=last_and_best": "save_total_limit",
        "output={text}": "output_dir project",
        "{name}=": "adapter finetuning_type",
        "lora.on={globs}": "lora_target_modules target_modules",
        "lora.rank={}": "lora_r",
        "lora.alpha={}": "lora_alpha",
        "lora.dropout={}": "lora_dropout",
        "train.deterministic=true": "use_deterministic_algorithms",
        "lp_ft=epochs=1; train epochs={next}": "fine_tune",
        "lp_ft=epochs={}": "freeze_epochs",
        "freeze=backbone": "trainable=false requires_grad=false freeze_backbone freeze_encoder freeze_base_model",
        "unfreeze=all": "trainable=true requires_grad=true",
        "freeze=first({})": "freeze",
        "model.weights={text}": "initial_checkpoint",
    }
)

# Names elsewhere of what the block of `data` says here.
OTHER_FORMS_IN_DATA = by_name(
    {
        "tokenize max_length={}": "max_seq_length max_length sequence_len max_seq_len cutoff_len",
        "split val={percent}": "validation_split val_split val_set_size test_size valid_pct",
        "workers {}": "num_workers dataloader_num_workers",
        "train … -> random_erasing(probability={})": "reprob random_erase",
        "train … -> horizontal_flip(probability={})": "hflip fliplr",
        "train … -> vertical_flip(probability={})": "vflip flipud",
        "train … -> random_rotation({})": "degrees",
        "train … -> color_jitter({})": "color_jitter",
        "train … -> rand_augment()": "aa auto_augment",
        "train … -> resize(224)": "item_tfms",
        "train … -> horizontal_flip()": "batch_tfms",
        "train … -> horizontal_flip() -> random_rotation(10)": "aug_transforms",
        "eval resize({}) -> …": "val_resize_size",
        "eval … -> center_crop({})": "val_crop_size",
    }
)

# What other tools must be told, and Leaven need not; after a kind of card, what its call needs no argument for.
NOT_NEEDED = by_name(
    {
        "a run ends with the weights of its best epoch": "load_best_model_at_end",
        "the last and the best checkpoint are kept": "save_best_only",
        "the metric says which direction is better": "greater_is_better",
        "`leaven run` trains, validates and tests": "do_train do_eval do_predict",
        "every epoch is validated": "eval_strategy evaluation_strategy check_val_every_n_epoch",
        "every epoch is saved; `checkpoint every=500 steps` saves more often": "save_strategy",
        "every epoch is logged to metrics.csv": "logging_strategy logging_steps log_every_n_steps",
        "every run has a folder of its own": "overwrite_output_dir exist_ok",
        "all GPUs are used, or the CPU without one; `train devices=1` sets how many": "accelerator device",
        "all GPUs are used, or the CPU without one": "no_cuda",
        "a run prints a line per epoch": "verbose enable_progress_bar",
        "the model gets a new head with one output per class": "num_classes num_labels n_classes nc include_top "
        "ignore_mismatched_sizes",
        "the data has the names of the classes": "id2label label2id",
        "the model's own tokenizer is used": "use_fast",
        "`leaven export` writes files that can be published": "push_to_hub",
        "texts of similar length are batched by themselves": "group_by_length",
        "loading is set up for the device": "pin_memory persistent_workers",
        "the task comes from the data": "metric.task",
        "the splits of the dataset are used as they are": "data.train data.split",
        "the dataset is downloaded once": "data.streaming",
    }
)

# What there is no counterpart for, and what comes nearest.
NEAREST = by_name(
    {
        "the loggers are `csv()`, `tensorboard()` and `mlflow()`": "wandb report_to log_wandb",
        "there is no such transform; the nearest is `random_zoom_out()`": "close_mosaic mosaic",
        "there is a statement for each: `optimizer`, `loss`, `metrics`": "model.compile",
        "`leaven resume RUN` continues a run": "resume_from_checkpoint resume",
        "transforms are joined in the block of `data`: `data … { train resize(224) -> horizontal_flip() }`": "compose",
        "say which layers: `freeze all - head`, or `freeze stages(1, 2)`": "freeze_to",
        "say which layers: `freeze stages(1, 2)`": "trainable_backbone_layers",
        "training is counted in epochs: `train epochs=…`": "max_steps",
        "it is not supported yet; `train batch=…, accumulate=…` needs less memory": "gradient_checkpointing",
        "weights are not quantized; `lora` alone saves the optimizer's memory": "load_in_4bit load_in_8bit",
        "for a short trial, use `leaven run --quick`": "limit_train_batches fast_dev_run overfit_batches",
        "validation runs once per epoch": "val_check_interval eval_steps",
        "there is no repeated augmentation; the samplers are `shuffled` and `balanced`": "ra_sampler",
        "there is a statement for each: `early_stop`, `checkpoint`, `schedule`, `log`": "callbacks",
        "each device has its own batch statistics; `freeze norms` keeps those of the trained model": "sync_bn",
    }
)

# timm's name of a policy: `rand-m9-mstd0.5-inc1`.
RAND_AUGMENT = r"rand(-(m|n|p|mstd|mmax|inc)[\d.]+|-t\w+)+"

# The splits of a dataset, where they are named as arguments: `folder(train="photos/train", val="photos/val")`.
SPLITS = ("train", "val", "valid", "validation", "test")

# Names that other tools have for commands, where the spelling does not suggest ours.
OTHER_COMMANDS = {
    program: by_name(commands)
    for program, commands in {
        "leaven": {
            "run": "train fit finetune fine-tune",
            "evaluate": "test val eval",
            "check": "lint validate",
            "format": "fmt",
            "new": "init",
            "inspect": "summary",
            "catalog search": "search list models",
            "export": "convert",
            "predict": "infer",
            "jobs": "queue squeue",
            "submit": "sbatch",
            "env": "environments",
            "--version": "version",
            "--help": "help",
        },
        "jobs": {
            "--help": "list ls help",
            "cancel": "stop kill",
            "logs": "log",
            "show": "info",
            "clean": "rm remove",
            "retry": "restart",
        },
        "env": {"list": "ls show", "check": "test", "--help": "help"},
        "coordinator": {"start": "run restart", "stop": "kill", "status": "info", "--help": "help"},
        "cache": {"list": "ls show", "clear": "rm clean prune", "verify": "check", "--help": "help"},
        "catalog": {"search": "list ls find", "show": "info", "--help": "help"},
    }.items()
}

# Options of other tools, by command, and what is written here.
OTHER_OPTIONS = {
    "check": {"format": "--json"},
    "show": {"format": "--json"},
    "run": {"resume": "leaven resume", "fast-dev-run": "--quick", "dry-run": "--quick", "output-dir": "--output"},
    "submit": {"env": "--on", "environment": "--on", "time-limit": "--time", "cores": "--cpus", "depends": "--after"},
    "export": {"format": "--to"},
    "predict": {"format": "--json", "topk": "--top", "top-k": "--top"},
    "evaluate": {"format": "--json"},
}

# Options by which other tools name the file that a recipe is.
RECIPE_OPTIONS = ("--config", "--cfg", "--config-file", "--config-name", "--recipe", "-c", "-f")
