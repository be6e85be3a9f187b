"""Components for one Talos Linux cluster across a rack, Azure and Alibaba Cloud."""
