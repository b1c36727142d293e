"""What people write from habit of other tools, and what it is here. Only read where something is wrong."""

# What other tools call it, by the word of the language. Suggested before spellings are compared.
OTHER_WORDS = {
    "lr": "learning_rate base_lr init_lr lr0 initial_lr",
    "batch": "batch_size bs train_batch_size per_device_train_batch_size per_device_eval_batch_size per_gpu_batch_size",
    "epochs": "n_epochs num_epochs max_epochs num_train_epochs nb_epoch nb_epochs total_epochs",
    "data": "dataset",
    "schedule": "scheduler lr_scheduler",
    "optimizer": "optim optimiser",
    "loss": "criterion",
    "metrics": "metric",
    "early_stop": "early_stopping earlystopping",
    "log": "logger",
    "output": "save",
    "train": "fit augment augmentation transforms",
    "phase": "phases stage",
    "unfreeze": "unlock",
    "freeze": "lock",
    "workers": "num_workers dataloader_num_workers",
    "weight_decay": "wd decay weight_decay_rate",
    "eps": "opt_eps adam_epsilon epsilon",
    "betas": "opt_betas adam_betas",
    "label_smoothing": "smoothing label_smoothing_factor",
    "accumulate": "gradient_accumulation_steps accumulate_grad_batches grad_accum_steps grad_accum",
    "seed": "random_seed manual_seed random_state",
    "compile": "torch_compile torchcompile",
    "ema": "model_ema",
    "size": "img_size image_size input_size imgsz",
    "cross_entropy": "ce crossentropy",
    "accuracy": "acc",
    "eval": "test",
    "sampler": "shuffle",
    "factor": "gamma",
    "temperature": "t",
    "rank": "r",
    "on": "target_modules",
    "fp16": "16 half float16",
    "bf16": "bfloat16",
    "32": "float32",
    "score": "monitor",
    "at_least": "min_delta",
    "probability": "p prob",
    "conv": "conv2d",
    "linear": "dense fc",
    "batch_norm": "batchnorm2d batch_norm2d bn",
    "max_pool": "maxpool2d",
    "avg_pool": "avgpool2d",
    "global_pool": "adaptiveavgpool2d global_avg_pool",
    "res_block": "basic_block basicblock",
    "squeeze_excite": "se",
    "horizontal_flip": "flip",
    "folder": "image_folder imagefolder",
    "plateau": "reduce_on_plateau",
    "cosine": "cosine_annealing",
    "one_cycle": "onecycle",
    "top": "k top_k",
    "clip": "grad_clip gradient_clip max_grad_norm clip_grad clip_grad_norm gradient_clip_val",
    "precision": "amp",
    "distill": "knowledge_distillation",
    "val": "validation",
}
SYNONYMS = {other: word for word, others in OTHER_WORDS.items() for other in others.split()}

# Names elsewhere whose value reads differently here, written like a setting: `{}` is the value, `{percent}` a fraction
# as a percentage, `{name}` a string as a name. What has no argument is a statement of its own.
OTHER_FORMS = {
    "warmup_ratio": "schedule.warmup={percent}",
    "warmup_steps": "schedule.warmup={} steps",
    "num_warmup_steps": "schedule.warmup={} steps",
    "warmup_epochs": "schedule.warmup={} epochs",
    "lr_scheduler_type": "schedule={name}()",
    "sched": "schedule={name}()",
    "fp16": "train.precision=fp16",
    "bf16": "train.precision=bf16",
    "layer_decay": "layer_decay={}",
    "layerwise_lr_decay": "layer_decay={}",
    "model_ema": "ema=",
    "model_ema_decay": "ema={}",
    "mixup_alpha": "mixup={}",
    "cutmix_alpha": "cutmix={}",
    "early_stopping_patience": "early_stop.patience={} epochs",
}

# timm's name of a policy: `rand-m9-mstd0.5-inc1`.
RAND_AUGMENT = r"rand(-(m|n|p|mstd|mmax|inc)[\d.]+|-t\w+)+"

# The splits of a dataset, where they are named as arguments: `folder(train="photos/train", val="photos/val")`.
SPLITS = ("train", "val", "valid", "validation", "test")

# Names that other tools have for commands, where the spelling does not suggest ours.
OTHER_COMMANDS = {
    "leaven": {
        "train": "run",
        "fit": "run",
        "finetune": "run",
        "fine-tune": "run",
        "test": "evaluate",
        "val": "evaluate",
        "eval": "evaluate",
        "lint": "check",
        "validate": "check",
        "fmt": "format",
        "init": "new",
        "summary": "inspect",
        "search": "catalog search",
        "list": "catalog search",
        "convert": "export",
        "infer": "predict",
        "queue": "jobs",
        "squeue": "jobs",
        "sbatch": "submit",
        "environments": "env",
        "help": "--help",
    },
    "jobs": {
        "list": "--help",
        "ls": "--help",
        "stop": "cancel",
        "kill": "cancel",
        "log": "logs",
        "info": "show",
        "rm": "clean",
        "remove": "clean",
        "restart": "retry",
        "help": "--help",
    },
    "env": {"ls": "list", "show": "list", "test": "check", "help": "--help"},
    "coordinator": {"run": "start", "restart": "start", "kill": "stop", "info": "status", "help": "--help"},
    "cache": {
        "ls": "list",
        "show": "list",
        "rm": "clear",
        "clean": "clear",
        "prune": "clear",
        "check": "verify",
        "help": "--help",
    },
    "catalog": {"list": "search", "ls": "search", "find": "search", "info": "show", "help": "--help"},
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
