"""The loop of PyTorch's tutorial "Transfer Learning for Computer Vision", with the best weights kept as there.

Prints the validation accuracy of the best epoch.
"""

import os
from tempfile import TemporaryDirectory

import torch
from photos import BATCH, RATE, WORKERS, arguments, folders, model_of, trainable
from torch import nn, optim
from torch.utils.data import DataLoader


def main() -> None:
    args = arguments()
    image_datasets = folders(args)
    dataloaders = {
        x: DataLoader(image_datasets[x], batch_size=BATCH, shuffle=True, num_workers=WORKERS) for x in ("train", "val")
    }
    dataset_sizes = {x: len(image_datasets[x]) for x in ("train", "val")}
    model = model_of(args, len(image_datasets["train"].classes))
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.AdamW(trainable(model), lr=RATE)

    with TemporaryDirectory() as tempdir:
        best_model_params_path = os.path.join(tempdir, "best_model_params.pt")
        torch.save(model.state_dict(), best_model_params_path)
        best_acc = 0.0
        for _ in range(args.epochs):
            for phase in ("train", "val"):
                model.train(phase == "train")
                running_loss = 0.0
                running_corrects = 0
                for inputs, labels in dataloaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        outputs = model(inputs)
                        _, preds = torch.max(outputs, 1)
                        loss = criterion(outputs, labels)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                    running_loss += loss.item() * inputs.size(0)
                    running_corrects += torch.sum(preds == labels.data)
                epoch_acc = running_corrects.double() / dataset_sizes[phase]
                if phase == "val" and epoch_acc > best_acc:
                    best_acc = epoch_acc
                    torch.save(model.state_dict(), best_model_params_path)
        model.load_state_dict(torch.load(best_model_params_path, weights_only=True))
    print(float(best_acc))


if __name__ == "__main__":
    main()
