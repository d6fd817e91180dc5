"""Membership inference: which users was a recommender trained on?

An audit runs in a straight line, one file for each step:

    scenarios      a model trained here, or files of a platform seen from outside -> PreparedScenario
    platforms      a recommender trained on members, and the lists it serves
    references     models like the target, for the attacks that compare with such models
    game           histories and lists of shadow and target, and the true members apart from them
    audit          attacks and rules on one game -> MembershipAudit
    verdict        numbers -> verdict, sentence and curves
"""
