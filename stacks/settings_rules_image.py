"""Rules about the images: what the platforms of a stack can take, and that every file and pin is used."""

from collections.abc import Iterable, Iterator

from hybrid_talos.arch import Arch
from hybrid_talos.azure_image_inputs import AzureImageStore
from hybrid_talos.image_assets import disk_assets, file_problem

from .settings_errors import Problem
from .settings_tree import Tree


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Yield the rules, each as the problems that it finds."""
    yield _secure_boot(tree)
    yield _managed_images(tree)
    yield _files(tree)
    yield _pins(tree)


def _platforms(tree: Tree) -> set[tuple[str, str]]:
    """Return the platform and architecture of every image that the stack uploads."""
    found = set()
    if tree.azure is not None:
        found = {("azure", (tree.image.arch if pool.arch is None else pool.arch).value) for pool in tree.azure.pools}
    if tree.aliyun is not None:
        found.add(("alibabacloud", "amd64"))
    return found


def _secure_boot(tree: Tree) -> Iterator[Problem]:
    if tree.image.is_secure_boot and tree.aliyun is not None:
        yield Problem(
            "image.secureBoot.enabled",
            "Talos has no Secure Boot image for Alibaba Cloud: set it to false, or give the Alibaba pools a stack of "
            "their own (aliyun-burst)",
        )


def _managed_images(tree: Tree) -> Iterator[Problem]:
    azure = tree.azure
    if azure is None or azure.image.store is not AzureImageStore.MANAGED_IMAGE:
        return
    for index, pool in enumerate(azure.pools):
        # Azure/azure-cli#21264.
        if (tree.image.arch if pool.arch is None else pool.arch) is not Arch.AMD64:
            yield Problem(
                "azure.image.store",
                f"is managedImage, which is for x64 machines only, but azure.pools[{index}] has {Arch.ARM64} machines: "
                "write gallery, or take another vmSize and arch for the pool",
            )
    if tree.image.is_secure_boot:
        yield Problem(
            "azure.image.store",
            "is managedImage, of which machines cannot use Secure Boot (image.secureBoot.enabled): write gallery",
        )


def _files(tree: Tree) -> Iterator[Problem]:
    known = {f"{platform}-{arch}" for platform, arch in _platforms(tree)}
    for name, file in tree.image.files.items():
        if name not in known:
            yield Problem(f'image.files["{name}"]', _unused(sorted(known)))
        elif problem := file_problem(name.partition("-")[0], file.location):
            yield Problem(f'image.files["{name}"].location', problem)


def _pins(tree: Tree) -> Iterator[Problem]:
    known: set[str] = set()
    for platform, arch in _platforms(tree):
        assets = disk_assets(platform, arch, secure_boot=tree.image.is_secure_boot)
        known.update(assets)
        if f"{platform}-{arch}" in tree.image.files and (both := set(assets) & set(tree.image.compressed_sha256)):
            for name in sorted(both):
                yield Problem(
                    f'image.compressedSha256["{name}"]',
                    f'has no effect beside image.files["{platform}-{arch}"], which has a sha256 of its own: remove one',
                )
    for name in tree.image.compressed_sha256:
        if name not in known:
            yield Problem(f'image.compressedSha256["{name}"]', _unused(sorted(known)))


def _unused(known: list[str]) -> str:
    return f"is of no image that this stack uploads: remove it, or write one of {', '.join(known) or 'none'}"
