"""The decisions of a cluster's life: what is refused, with which sum and which way out."""

import pytest
from hybrid_talos import life_plan
from hybrid_talos.life_plan import Voter


def voters(*names: str, ill: tuple[str, ...] = (), learners: tuple[str, ...] = ()) -> list[Voter]:
    return [
        Voter(
            f"id-{name}", name, f"192.0.2.{number}", name in learners, name not in ill, "" if name not in ill else "off"
        )
        for number, name in enumerate(names, start=1)
    ]


def by_name(found: list[Voter], name: str) -> Voter:
    return next(voter for voter in found if voter.name == name)


def addresses(*names: str) -> dict[str, str]:
    return {name: f"192.0.2.{name[-1]}" for name in names}


class TestTouch:
    def test_a_healthy_cluster_of_three_spares_one(self) -> None:
        assert life_plan.touch_problem(voters("a", "b", "c"), "192.0.2.1", 3) is None

    def test_not_while_another_one_is_ill(self) -> None:
        problem = life_plan.touch_problem(voters("a", "b", "c", ill=("b",)), "192.0.2.1", 3)
        assert problem is not None
        assert "b: off" in problem
        assert "1 of 3 would work, and a quorum is 2" in problem

    def test_not_while_another_one_of_five_is_ill_although_quorum_would_stay(self) -> None:
        assert life_plan.touch_problem(voters("a", "b", "c", "d", "e", ill=("b",)), "192.0.2.1", 5) is not None

    def test_the_ill_one_itself_may_be_touched(self) -> None:
        assert life_plan.touch_problem(voters("a", "b", "c", ill=("a",)), "192.0.2.1", 3) is None

    def test_not_while_one_is_joining(self) -> None:
        problem = life_plan.touch_problem(voters("a", "b", "c", "d", learners=("d",)), "192.0.2.1", 3)
        assert problem is not None
        assert "joining" in problem

    def test_of_two_none_may_go_down(self) -> None:
        problem = life_plan.touch_problem(voters("a", "b"), "192.0.2.1", 3)
        assert problem is not None
        assert "2 members and needs 2" in problem

    def test_a_single_member_that_is_wanted_single_may(self) -> None:
        assert life_plan.touch_problem(voters("a"), "192.0.2.1", 1) is None
        assert life_plan.touch_problem(voters("a"), "192.0.2.1", 3) is not None

    def test_a_machine_that_is_no_member_takes_nothing(self) -> None:
        assert life_plan.touch_problem(voters("a", "b"), "192.0.2.9", 3) is None


class TestRemoval:
    def test_one_of_a_healthy_three_may_leave(self) -> None:
        found = voters("a", "b", "c")
        assert life_plan.removal_problem(found, by_name(found, "a"), 3) is None

    def test_the_last_one_may_not(self) -> None:
        found = voters("a")
        assert "last member" in str(life_plan.removal_problem(found, found[0], 1))

    def test_the_sum_is_shown(self) -> None:
        found = voters("a", "b", "c", ill=("b",))
        problem = str(life_plan.removal_problem(found, by_name(found, "a"), 3))
        assert "2 members and needs 2 of them, but only 1 are healthy (b: off)" in problem

    def test_the_dead_one_may_go(self) -> None:
        found = voters("a", "b", "c", ill=("b",))
        assert life_plan.removal_problem(found, by_name(found, "b"), 3) is None

    def test_a_healthy_one_waits_for_the_repair_of_another(self) -> None:
        found = voters("a", "b", "c", "d", "e", ill=("b",))
        assert "repair or remove" in str(life_plan.removal_problem(found, by_name(found, "a"), 5))

    def test_the_second_of_three_waits_for_another_to_join(self) -> None:
        found = voters("a", "b")
        assert "the others must join first" in str(life_plan.removal_problem(found, by_name(found, "a"), 3))

    def test_five_go_to_three(self) -> None:
        found = voters("a", "b", "c", "d", "e")
        assert life_plan.removal_problem(found, by_name(found, "e"), 5) is None
        assert life_plan.removal_problem(found[:4], by_name(found, "d"), 5) is None

    def test_a_learner_may_always_go(self) -> None:
        found = voters("a", "b", learners=("b",))
        assert life_plan.removal_problem(found, by_name(found, "b"), 3) is None


class TestMembership:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("a1", "a1 b2 c3"),
            ("a1 b2 c3", "a1 b2 c3 d4 e5"),
            ("a1 b2 c3", "a1 b2 d4"),
            ("a1 b2 c3 d4 e5", "a1 b2 c3"),
            ("a1 b2 c3 d4 e5", "a1 b2 c3 f6 g7"),
        ],
    )
    def test_a_majority_stays(self, old: str, new: str) -> None:
        assert life_plan.membership_problem(addresses(*old.split()), addresses(*new.split())) is None

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("a1 b2 c3", "a1 d4 e5", "change at most 1 at a time"),
            ("a1 b2 c3 d4 e5", "a1 b2 f6", "change at most 2 at a time"),
            ("a1 b2 c3", "a1", "restore a snapshot"),
            ("a1", "b2", "add two more first"),
        ],
    )
    def test_without_one_the_way_is_told(self, old: str, new: str, said: str) -> None:
        problem = str(life_plan.membership_problem(addresses(*old.split()), addresses(*new.split())))
        assert said in problem
        assert "for a quorum" in problem

    def test_another_address_counts_as_another_machine(self) -> None:
        old, new = {"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}, {"a": "192.0.2.7", "b": "192.0.2.8"}
        assert life_plan.membership_problem(old, {**new, "c": "192.0.2.3"}) is not None

    def test_new_ones_come_before_old_ones_go(self) -> None:
        plan = life_plan.membership_plan(addresses("a1", "b2", "c3"), addresses("b2", "c3", "d4"))
        assert plan == [
            "add d4: 3 -> 4 members, 3 for a quorum",
            "remove a1: 4 -> 3 members, 2 for a quorum",
        ]

    def test_one_in_the_place_of_another_goes_first(self) -> None:
        plan = life_plan.membership_plan({"a": "192.0.2.1"}, {"a": "192.0.2.2"})
        assert [step.split(":")[0] for step in plan] == ["remove a at 192.0.2.1", "add a at 192.0.2.2"]

    def test_dead_ones_that_nobody_wants_make_way(self) -> None:
        found = voters("a", "b", "c", ill=("c",))
        assert [v.name for v in life_plan.dead_strangers(found, addresses("a1", "b2", "d4"))] == ["c"]
        assert life_plan.dead_strangers(found, addresses("a1", "b2", "c3")) == []
        assert life_plan.dead_strangers(voters("a", "b", "c"), addresses("a1", "b2")) == []


class TestVersions:
    @pytest.mark.parametrize(
        ("old", "new", "kubernetes"),
        [("1.12.4", "1.13.0", "1.35.0"), ("1.13.0", "1.13.9", "1.36.0"), ("1.13.9", "1.13.2", "1.36.0")],
    )
    def test_steps_of_talos(self, old: str, new: str, kubernetes: str) -> None:
        assert life_plan.talos_step_problem(old, new, kubernetes) is None

    @pytest.mark.parametrize(
        ("old", "new", "kubernetes", "said"),
        [
            ("1.12.4", "1.14.0", "1.35.0", "skips 1.13. Next: set the newest 1.13 first"),
            ("1.11.0", "1.14.0", "1.34.0", "skips 1.12, 1.13"),
            ("1.14.0", "1.13.9", "1.36.0", "talosctl rollback"),
            ("1.13.9", "1.14.0", "1.31.9", "raise Kubernetes to 1.32 one minor at a time"),
            ("1.14.0", "1.15.0", "1.36.0", "not known to this release"),
            ("1.14.0", "2.0.0", "1.36.0", "major"),
        ],
    )
    def test_what_talos_does_not_do_in_one_step(self, old: str, new: str, kubernetes: str, said: str) -> None:
        assert said in str(life_plan.talos_step_problem(old, new, kubernetes))

    def test_steps_of_kubernetes(self) -> None:
        assert life_plan.kubernetes_step_problem("1.35.1", "1.36.0") is None
        assert life_plan.kubernetes_step_problem("1.36.3", "1.36.1") is None
        assert "skips 1.35" in str(life_plan.kubernetes_step_problem("1.34.0", "1.36.0"))
        assert "goes back" in str(life_plan.kubernetes_step_problem("1.36.0", "1.35.9"))


def test_so_many_at_once_wait_for_the_one_so_many_before() -> None:
    assert life_plan.after_which(["c", "a", "b"], 1) == {"a": None, "b": "a", "c": "b"}
    assert life_plan.after_which(["c", "a", "b", "d"], 2) == {"a": None, "b": None, "c": "a", "d": "b"}


def test_a_member_is_known_by_its_address_and_by_its_name_only_without_one() -> None:
    found = voters("cp-1", "cp-1")
    assert life_plan.find(found, "cp-1", "192.0.2.2") == found[1]
    assert life_plan.find(found, "cp-1", "192.0.2.9") is None
    assert life_plan.find([Voter("id", "cp-1", "")], "cp-1", "192.0.2.9") is not None
